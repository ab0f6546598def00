//! Space of each target, as it last reported: nothing here waits for a target that is away.
//!
//! A target that answers is asked each time, and its answer is kept. One that reported its space
//! before gets [`ANSWER_WAIT`] to answer, one that never did [`FIRST_WAIT`], and one that could not
//! be reached at the last attempt gets no time at all. After that the request goes on in the
//! background, one for each target. Until it ends the target counts as away, and callers get its
//! last report.

use env::BoxFuture;
use parking_lot::Mutex;
use rpc::error::RpcError;
use rpc::import::Import;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use types::attr::Statfs;
use types::errno::Errno;
use types::target::TargetName;

/// How long a target that reported its space before is waited for.
pub const ANSWER_WAIT: Duration = Duration::from_secs(1);
/// How long a target that never reported its space is waited for.
pub const FIRST_WAIT: Duration = Duration::from_secs(5);

/// A target does not tell its space now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unanswered {
    /// Why: ESHUTDOWN if it was taken out of use, ETIMEDOUT if it is away, else what it answers.
    pub errno: Errno,
    /// Its last report.
    pub last: Option<Statfs>,
}

#[derive(Default)]
struct Known {
    last: Option<Statfs>,
    /// A question is under way in the background.
    overdue: bool,
}

/// Last reports of the targets of one mount. Bound: the targets of the file system.
#[derive(Default)]
pub struct Spaces {
    known: Mutex<BTreeMap<TargetName, Known>>,
}

impl Spaces {
    fn last(&self, target: TargetName) -> (Option<Statfs>, bool) {
        self.known.lock().get(&target).map_or((None, false), |known| (known.last, known.overdue))
    }

    fn told(&self, target: TargetName, answer: &Result<Statfs, RpcError>) {
        if let Ok(space) = answer {
            self.known.lock().entry(target).or_default().last = Some(*space);
        }
    }

    /// `false`: it was so already.
    fn set_overdue(&self, target: TargetName, overdue: bool) -> bool {
        let mut known = self.known.lock();
        std::mem::replace(&mut known.entry(target).or_default().overdue, overdue) != overdue
    }

    /// The target left the file system.
    pub fn forget(&self, target: TargetName) {
        self.known.lock().remove(&target);
    }
}

/// The answer to `question`, or the last report.
///
/// # Errors
/// [`Unanswered`].
pub async fn in_time(
    env: env::Env,
    spaces: Arc<Spaces>,
    import: Arc<Import>,
    mut question: BoxFuture<'static, Result<Statfs, RpcError>>,
) -> Result<Statfs, Unanswered> {
    let target = import.target();
    let (last, overdue) = spaces.last(target);
    if overdue {
        return Err(Unanswered { errno: Errno::ETIMEDOUT, last });
    }
    let wait = match last {
        _ if import.is_away() => Duration::ZERO,
        Some(_) => ANSWER_WAIT,
        None => FIRST_WAIT,
    };
    tokio::select! {
        biased;
        answer = &mut question => {
            spaces.told(target, &answer);
            answer.map_err(|error| Unanswered { errno: error.errno(), last })
        }
        () = env.clock.sleep(wait) => {
            if spaces.set_overdue(target, true) {
                let background = async move {
                    let answer = question.await;
                    spaces.told(target, &answer);
                    spaces.set_overdue(target, false);
                };
                env.tasks.spawn("overdue space", Box::pin(background));
            }
            Err(Unanswered { errno: Errno::ETIMEDOUT, last })
        }
    }
}
