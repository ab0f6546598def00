//! Requests of one file that are on their way to objects. Pure.
//!
//! They end in any order; what waits for a file to be stored waits for all that were begun before.

use rpc::error::RpcError;
use std::collections::BTreeSet;

/// See the module.
#[derive(Default)]
pub struct UnderWay {
    /// Number of the last request that was begun.
    last: u64,
    open: BTreeSet<u64>,
    /// The newest request that ended without an answer, and why.
    unanswered: Option<(u64, RpcError)>,
}

impl UnderWay {
    /// A request begins; its number.
    pub(crate) fn begin(&mut self) -> u64 {
        self.last += 1;
        self.open.insert(self.last);
        self.last
    }

    /// A request ended; `unanswered`: without an answer.
    pub(crate) fn ended(&mut self, number: u64, unanswered: Option<RpcError>) {
        self.open.remove(&number);
        if let Some(error) = unanswered
            && self.unanswered.as_ref().is_none_or(|(newest, _)| *newest < number)
        {
            self.unanswered = Some((number, error));
        }
    }

    /// Number of the oldest request that is under way; without one, of the next that will be.
    pub(crate) fn oldest(&self) -> u64 {
        self.open.first().copied().unwrap_or(self.last + 1)
    }

    /// Number of the last request that was begun; 0: none was.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// True if all requests up to this one have ended.
    pub(crate) fn is_over(&self, upto: u64) -> bool {
        self.oldest() > upto
    }

    /// Why one of the requests from `first` on ended without an answer, if one did.
    pub(crate) fn unanswered_since(&self, first: u64) -> Option<RpcError> {
        self.unanswered
            .as_ref()
            .filter(|(number, _)| *number >= first)
            .map(|(_, error)| error.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_for_a_request_waits_for_all_before_it_and_hears_of_those_without_an_answer() {
        let mut under_way = UnderWay::default();
        assert!(under_way.is_over(0));
        let (first, second) = (under_way.begin(), under_way.begin());
        assert_eq!((under_way.oldest(), under_way.last()), (first, second));
        under_way.ended(second, None);
        assert!(
            !under_way.is_over(first) && !under_way.is_over(second),
            "the first may still come"
        );
        let third = under_way.begin();
        under_way.ended(first, Some(RpcError::Shutdown));
        assert!(under_way.is_over(second) && !under_way.is_over(third));
        assert_eq!(under_way.unanswered_since(first), Some(RpcError::Shutdown));
        assert_eq!(under_way.unanswered_since(second), None);
        under_way.ended(third, None);
        assert!(under_way.is_over(third));
        assert_eq!(
            under_way.unanswered_since(first),
            Some(RpcError::Shutdown),
            "as long as somebody may ask"
        );
    }
}
