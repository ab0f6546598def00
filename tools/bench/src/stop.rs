//! Ctrl-C: all workers check this flag and come back with an error, and everything that was made is
//! removed on the way out.

use crate::failure::BenchError;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::signal::unix::{SignalKind, signal};

/// Exit code after a second signal, as shells have it for SIGINT.
const FORCED: i32 = 130;

/// The request to end the work.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Set by SIGINT, SIGTERM and SIGHUP. A second signal ends the process at once, whatever is
    /// left behind.
    ///
    /// # Errors
    /// No thread or no signal handler can be made.
    pub fn on_signals() -> Result<Stop, BenchError> {
        let stop = Stop::default();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(BenchError::of("watch for signals"))?;
        let entered = runtime.enter();
        let catch = |kind| signal(kind).map_err(BenchError::of("watch for signals"));
        let mut signals = [
            catch(SignalKind::interrupt())?,
            catch(SignalKind::terminate())?,
            catch(SignalKind::hangup())?,
        ];
        drop(entered);
        let flag = stop.clone();
        let watch = move || {
            runtime.block_on(async {
                loop {
                    let [interrupt, terminate, hangup] = &mut signals;
                    tokio::select! {
                        _ = interrupt.recv() => {}
                        _ = terminate.recv() => {}
                        _ = hangup.recv() => {}
                    }
                    if flag.0.swap(true, Ordering::AcqRel) {
                        eprintln!("sheen bench: interrupted again; folders named sheen-bench.* may be left behind");
                        std::process::exit(FORCED);
                    }
                }
            });
        };
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(watch)
            .map_err(BenchError::of("start a thread"))?;
        Ok(stop)
    }

    /// Asks for the end, as a signal does.
    pub fn ask(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// True if the end was asked for.
    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// To be called in every loop of work.
    ///
    /// # Errors
    /// [`BenchError::Interrupted`].
    pub fn check(&self) -> Result<(), BenchError> {
        if self.is_asked() { Err(BenchError::Interrupted) } else { Ok(()) }
    }
}
