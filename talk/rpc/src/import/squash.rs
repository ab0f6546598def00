//! What the target says of squash: the ids as which the callers of this client act. It comes with
//! the answer to a connect, and with a callback when it changes. Of two words the newer one counts,
//! in whichever order they come.

use crate::import::Import;
use crate::import::hooks::OnSquash;
use types::credentials::{Callers, SquashNews};

impl Import {
    /// The ids as which callers act at the target; their own until a session began.
    pub fn callers(&self) -> Callers {
        self.squash.lock().callers.clone()
    }

    /// Registers a hook; see [`OnSquash`]. The first one counts, and stays as long as the import.
    pub fn on_squash(&self, hook: OnSquash) {
        if self.on_squash.set(hook).is_err() {
            tracing::error!(target = %self.target, "a hook is told of squash already");
        }
    }

    pub(crate) fn learn_squash(&self, news: SquashNews) {
        let changed = {
            let mut known = self.squash.lock();
            if news.change < known.change {
                return;
            }
            let changed = known.callers != news.callers;
            *known = news;
            changed
        };
        if let Some(hook) = self.on_squash.get().filter(|_| changed) {
            hook();
        }
    }
}
