//! Locks of a mount: one namespace for all of it, and, as in Lustre, one for each session.

use super::values::number;
use client::client::Client;
use data::lock_namespace::Whose;
use data::locks::table::{Bounds, LOCKS_MAX};
use observe::catalog::{LDLM_LOCK_COUNT, LDLM_LOCK_UNUSED_COUNT, LDLM_LRU_MAX_AGE, LDLM_LRU_SIZE};
use observe::tree::Tree;
use std::sync::Arc;
use types::errno::Errno;

/// The namespace of a mount.
pub(super) fn add(tree: &mut Tree, client: &Arc<Client>, namespace: &str) {
    let counted = client.clone();
    tree.shows(&LDLM_LOCK_COUNT, &[namespace], move || {
        Ok(counted.lock_namespace().count().to_string())
    });
    add_lru(tree, client, namespace, Whose::Mount);
}

/// The namespace of one of its sessions.
pub(super) fn add_session(tree: &mut Tree, client: &Arc<Client>, namespace: &str, whose: Whose) {
    let counted = client.clone();
    tree.shows_part(&LDLM_LOCK_COUNT, &[namespace], move || {
        Ok(counted.lock_namespace().held(whose).len().to_string())
    });
    add_lru(tree, client, namespace, whose);
}

fn add_lru(tree: &mut Tree, client: &Arc<Client>, namespace: &str, whose: Whose) {
    let devices = [namespace];
    for param in [&LDLM_LOCK_UNUSED_COUNT, &LDLM_LRU_SIZE] {
        let counted = client.clone();
        tree.shows(param, &devices, move || Ok(counted.lock_namespace().unused(whose).to_string()));
    }
    let set = client.clone();
    tree.does(&LDLM_LRU_SIZE, &devices, move |value| {
        let client = set.clone();
        Box::pin(async move {
            let locks = match value.trim() {
                "clear" => {
                    client.lock_namespace().clear(whose).await;
                    return Ok(());
                }
                "0" => LOCKS_MAX,
                size => number(size)?,
            };
            let namespace = client.lock_namespace();
            namespace.set_bounds(Bounds { locks, ..namespace.bounds() })
        })
    });
    let shown = client.clone();
    tree.shows(&LDLM_LRU_MAX_AGE, &devices, move || {
        Ok(shown.lock_namespace().bounds().age_ms.to_string())
    });
    let set = client.clone();
    tree.takes(&LDLM_LRU_MAX_AGE, &devices, move |value| {
        let namespace = set.lock_namespace();
        namespace.set_bounds(Bounds { age_ms: milliseconds(value)?, ..namespace.bounds() })
    });
}

/// Milliseconds, or with a unit: `3900s`.
fn milliseconds(text: &str) -> Result<u64, Errno> {
    let text = text.trim();
    let (digits, factor) = match text.strip_suffix("ms") {
        Some(digits) => (digits, 1),
        None => text.strip_suffix('s').map_or((text, 1), |digits| (digits, 1000)),
    };
    let time = number::<u32>(digits)?;
    Ok(u64::from(time) * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_may_have_units() {
        assert_eq!(
            ["0", "600000", "3900s", "5ms\n"].map(milliseconds),
            [Ok(0), Ok(600_000), Ok(3_900_000), Ok(5)]
        );
        assert_eq!(["", "s", "-1", "1h", "4294967296"].map(milliseconds), [Err(Errno::EINVAL); 5]);
    }
}
