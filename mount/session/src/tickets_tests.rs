use super::*;
use env::BoxFuture;
use rpc::callbacks::Callbacks;
use rpc::import::hooks::Restore;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use stubs::mdc::Watch;
use types::session::ClientUuid;
use types::time::Timestamp;
use wire::mds::OpenFlags;

#[derive(Default)]
struct Stopped(Mutex<Monotonic>);

impl Clock for Stopped {
    fn now(&self) -> Monotonic {
        *self.0.lock()
    }
    fn wall(&self) -> Timestamp {
        Timestamp::default()
    }
    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

struct Nothing;

impl Hooks for Nothing {
    fn callbacks(&self) -> Arc<dyn Callbacks> {
        unreachable!()
    }
    fn watch(&self, _: TargetIndex) -> Arc<dyn Watch> {
        unreachable!()
    }
    fn restore(&self, _: &Mdc) -> Arc<dyn Restore> {
        unreachable!()
    }
    fn mdt_lost(&self, _: TargetIndex, _: bool) {}
    fn mdt_back(&self, _: Mdc) {}
    fn squash_changed(&self) {}
    fn files_in_use(&self) -> BTreeSet<Fid> {
        BTreeSet::new()
    }
    fn named(&self, file: Fid) -> Fid {
        file
    }
    fn users_of(&self, _: Fid) -> Vec<FileUser> {
        Vec::new()
    }
    fn ost_lost(&self, _: TargetIndex) {}
    fn objects_lost(&self, _: &[Op]) {}
}

const FILE: Fid = Fid { seq: Fid::SEQ_NORMAL, oid: 7, ver: 0 };
const LIFE: u64 = 100;
const A: TargetIndex = TargetIndex(0);
const B: TargetIndex = TargetIndex(1);

fn tickets() -> (Arc<Tickets>, Arc<Stopped>) {
    let clock = Arc::new(Stopped::default());
    (Tickets::new(clock.clone(), Arc::new(Nothing)), clock)
}

fn ticket(rights: Rights) -> ObjectTicket {
    let mac = u128::from(rights.bits()) + ClientUuid(8).0;
    ObjectTicket { fid: FILE, rights, epoch: 1, expires: LIFE, mac }
}

/// An MDT has answered an open.
fn opened(tickets: &Tickets, rights: Rights) {
    let asked = AskTickets { fids: vec![FILE], of_objects: false, had: Vec::new() };
    let answer = MdsReply::Tickets { life: LIFE as u32, tickets: vec![Ok(ticket(rights))] };
    tickets.learn(&Credentials::root(), &asked, &[Ok(MdsReply::Done)], Ok(answer));
}

fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("it waits"),
    }
}

fn to_show(tickets: &Tickets, ost: TargetIndex, rights: Rights) -> Option<Vec<ObjectTicket>> {
    now(tickets.to_show(ost, vec![(FILE, rights)])).ok()
}

fn open(tickets: &Tickets) -> bool {
    let open = MdsOp::Open(Open { fid: FILE, flags: OpenFlags::default() });
    tickets.behind(&Credentials::root(), &[open]).is_some()
}

#[test]
fn a_ticket_is_shown_to_each_ost_once() {
    let (tickets, clock) = tickets();
    opened(&tickets, Rights::READ);
    let read = || ticket(Rights::READ);
    assert_eq!(to_show(&tickets, A, Rights::READ), Some(vec![read()]));
    tickets.shown(A, &[read()]);
    assert_eq!(to_show(&tickets, A, Rights::READ), Some(Vec::new()));
    assert_eq!(to_show(&tickets, A, Rights::NONE), Some(Vec::new()), "any right");
    assert_eq!(to_show(&tickets, B, Rights::READ), Some(vec![read()]));
    // There is no MDT to ask for more.
    assert_eq!(to_show(&tickets, A, Rights::WRITE), None);
    opened(&tickets, Rights::WRITE);
    assert_eq!(to_show(&tickets, A, Rights::ALL), Some(vec![ticket(Rights::WRITE)]));
    // The OST, or its memory of this client, is gone.
    tickets.ost_lost(A);
    assert_eq!(to_show(&tickets, A, Rights::ALL).unwrap().len(), 2);
    tickets.shown(A, &[read(), ticket(Rights::WRITE)]);
    tickets.refused(A, &vec![(FILE, Rights::ALL)], Refused::Forgotten);
    assert_eq!(to_show(&tickets, A, Rights::ALL).unwrap().len(), 2);
    tickets.refused(A, &vec![(FILE, Rights::ALL)], Refused::NotBelieved);
    assert_eq!(to_show(&tickets, A, Rights::READ), None, "it is not believed");
    opened(&tickets, Rights::ALL);
    assert_eq!(to_show(&tickets, A, Rights::READ), Some(vec![ticket(Rights::ALL)]));
    *clock.0.lock() += Duration::from_secs(LIFE);
    assert_eq!(to_show(&tickets, A, Rights::READ), None, "its time is over");
}

#[test]
fn an_open_asks_for_a_ticket_unless_there_is_a_young_one_for_everything() {
    let (tickets, clock) = tickets();
    assert!(!tickets.is_wanted());
    tickets.used(FILE, FILE, &Credentials::root());
    assert!(tickets.named.lock().is_empty(), "no OST asks for tickets");
    tickets.want();
    assert!(open(&tickets));
    opened(&tickets, Rights::READ);
    assert!(open(&tickets));
    opened(&tickets, Rights::ALL);
    assert!(!open(&tickets));
    *clock.0.lock() += Duration::from_secs(LIFE / 2);
    assert!(open(&tickets), "half of its time is over");
    let create = MdsOp::Getattr(wire::mds::Getattr::of(FILE));
    assert!(tickets.behind(&Credentials::root(), &[create]).is_none());
}

#[test]
fn files_that_are_read_ahead_need_tickets_to_read() {
    let (tickets, clock) = tickets();
    let user = Credentials { uid: 1000, ..Credentials::default() };
    let asked = |tickets: &Tickets| tickets.to_read(&user, &[FILE]).map(|asked| asked.fids);
    assert_eq!(asked(&tickets), None, "no target asks for tickets");
    tickets.want();
    assert_eq!(asked(&tickets), Some(vec![FILE]));
    assert_eq!(tickets.user(FILE, 0).map(|known| known.credentials), Some(user.clone()));
    opened(&tickets, Rights::WRITE);
    assert_eq!(asked(&tickets), Some(vec![FILE]));
    opened(&tickets, Rights::READ);
    assert_eq!(asked(&tickets), None);
    *clock.0.lock() += Duration::from_secs(LIFE / 2);
    assert_eq!(asked(&tickets), Some(vec![FILE]), "half of its time is over");
}

#[test]
fn an_mdt_that_knows_of_no_ticket_is_asked_anew() {
    let (tickets, _) = tickets();
    opened(&tickets, Rights::ALL);
    let user = Credentials { uid: 1000, ..Credentials::default() };
    // There is no MDT to ask.
    let asked = now(tickets.ask_again(&user, vec![(FILE, Rights::READ)]));
    assert!(matches!(asked, Err(RpcError::Shutdown)), "{asked:?}");
    assert!(tickets.is_wanted());
    assert_eq!(tickets.user(FILE, 0).map(|user| user.credentials), Some(user));
    assert_eq!(to_show(&tickets, A, Rights::READ), None);
    let shown = tickets.for_recovery(&BTreeSet::from([FILE]));
    assert_eq!(shown.len(), 1, "it is shown to whoever needs only to see that it was made");
    opened(&tickets, Rights::READ);
    assert_eq!(to_show(&tickets, A, Rights::READ), Some(vec![ticket(Rights::READ)]));
}

#[test]
fn what_is_brought_back_comes_with_tickets_that_may_be_over() {
    let (tickets, clock) = tickets();
    opened(&tickets, Rights::ALL);
    let changed = BTreeSet::from([FILE]);
    assert!(tickets.for_recovery(&changed).is_empty(), "no OST asks for tickets");
    tickets.want();
    *clock.0.lock() += Duration::from_secs(2 * LIFE);
    let shown = ShowTickets { tickets: vec![ticket(Rights::ALL)] };
    assert_eq!(tickets.for_recovery(&changed), [Op::Ost(OstOp::Tickets(shown))]);
    assert!(tickets.for_recovery(&BTreeSet::new()).is_empty());
}
