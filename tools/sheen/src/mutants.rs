//! A program that is wrong on purpose (feature `mutants`), for checkers that must notice it. The
//! variable is inherited by the daemons that it starts.

use observe::mutant::Mutant;

/// Names the mistake; unset: none.
const VARIABLE: &str = "SHEEN_MUTANT";

/// Makes the mistake that the environment names from now on.
///
/// # Panics
/// There is no such mistake.
pub fn choose() {
    let Ok(wanted) = std::env::var(VARIABLE) else { return };
    let known = [&Mutant::OF_CLIENT[..], &Mutant::OF_SERVER].concat();
    let Some((_, mutant)) = known.iter().copied().find(|(name, _)| *name == wanted) else {
        let names = known.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        panic!("{VARIABLE}={wanted}: one of {names}");
    };
    observe::mutant::choose(Some(mutant));
}
