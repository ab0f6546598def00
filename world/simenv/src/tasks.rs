//! A process' tasks. Blocking work runs whole, at a later instant that the disk's speed decides.

use crate::core::Core;
use crate::executor::{self, Action};
use crate::machine::Process;
use env::BoxFuture;
use env::tasks::Tasks;
use std::sync::Arc;

pub(crate) struct SimTasks {
    pub(crate) core: Arc<Core>,
    pub(crate) process: Arc<Process>,
}

impl Tasks for SimTasks {
    fn spawn(&self, name: &'static str, future: BoxFuture<'static, ()>) {
        if self.process.is_alive() {
            self.core.executor.spawn(name, Some(self.process.clone()), future);
        }
    }

    fn spawn_blocking(&self, name: &'static str, work: Box<dyn FnOnce() + Send>) {
        if !self.process.is_alive() {
            return;
        }
        let delay = self.process.machine.delay();
        let action = Action::Work { name, process: self.process.clone(), work };
        self.core.executor.at(self.core.executor.now() + delay, action);
    }

    /// There are no threads here, because a loop that blocks would stop the world. Code that needs
    /// a thread has another way in a simulation (`store`: `Committer::Caller`).
    fn spawn_thread(&self, name: &'static str, work: Box<dyn FnOnce() + Send>) {
        drop(work);
        self.core
            .executor
            .fail(format!("the thread `{name}` was asked for, and there are none in a simulation"));
    }

    fn on_reactor(&self) -> bool {
        executor::in_task()
    }
}
