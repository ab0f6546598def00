//! A session is ended in order.

use crate::import::remote::Outcome;
use crate::import::{Import, Session};
use crate::service::Gone;
use env::BoxFuture;
use lnet::peer::Ask;
use types::limits::CONNECT_TIMEOUT;
use wire::message::Op;

impl Import {
    /// Ends the session in order.
    pub fn disconnect(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.end_session())
    }

    async fn end_session(&self) {
        let session = {
            let mut link = self.link.lock();
            link.machine.forget();
            link.session.take()
        };
        match session {
            Some(Session::Local(local)) => local.served.end(&local.export, Gone::Disconnected),
            Some(Session::Remote(remote)) => {
                let request = self.request_of(self.xids.begin(true).xid, vec![Op::Disconnect]);
                let ask = Ask {
                    reply_bulk: 0,
                    limit: Some(CONNECT_TIMEOUT),
                    outside_window: true,
                    background: false,
                };
                if let Outcome::Failed(error) = remote.exchange(&request, ask, false).await {
                    // Its lease will end the session.
                    tracing::info!(target = %self.target, %error, "disconnect was not answered");
                }
            }
            None => {}
        }
    }
}
