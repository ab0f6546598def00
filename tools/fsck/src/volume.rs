//! The records of an OST whose objects are on a volume: what is wrong, in words, and its repair.

use crate::report::VolumeFinding;
use store::error::StoreError;
use store::store::Store;
use store::volume::check::{Wrong, check as compare, repair as mend};
use types::target::TargetName;

/// Compares the records with each other, and repairs what can be if told to.
pub(crate) fn check(
    ost: TargetName,
    (store, units): (&Store, u32),
    repair: bool,
) -> Result<Vec<VolumeFinding>, StoreError> {
    let checked = compare(store, units)?;
    let mut findings = Vec::new();
    for wrong in &checked.wrong {
        let done = if repair { mend(store, wrong)? } else { None };
        let (kind, what, advice) = words(wrong);
        findings.push(VolumeFinding { kind, text: format!("{ost}: {what}"), advice, done });
    }
    if checked.more > 0 {
        findings.push(VolumeFinding {
            kind: "more",
            text: format!("{ost}: {} findings more of its volume", checked.more),
            advice: "repair those first",
            done: None,
        });
    }
    Ok(findings)
}

fn words(wrong: &Wrong) -> (&'static str, String, &'static str) {
    match wrong {
        Wrong::Damaged { object, region: Some(region) } => (
            "damaged-units",
            format!("the record of region {region} of {object:?} cannot be read"),
            "reading there is EIO; restore the file",
        ),
        Wrong::Damaged { object, region: None } => (
            "damaged-object",
            format!("the record of {object:?} cannot be read"),
            "using it is EIO; restore the file",
        ),
        Wrong::Leaked { object, region, units } => (
            "leaked-units",
            format!("{units} units in region {region} of {object:?}, which does not reach there"),
            "--repair frees them",
        ),
        Wrong::Twice { object, region, place } => (
            "double-unit",
            format!("unit {place}, in region {region} of {object:?}, has another owner or is none"),
            "it is given to no other; the object whose checksums differ is EIO there: restore that file",
        ),
        Wrong::Count { object, recorded, found } => (
            "wrong-units",
            format!("{object:?} says that it has {recorded} units, and has {found}"),
            "--repair counts them",
        ),
    }
}
