//! Fault points: named places where something can be made to go wrong on purpose.
//!
//! Each is declared once, here, with Lustre's number (`OBD_FAIL_...`) where it has a counterpart.
//! Code asks [`hit`] at the place; as long as nothing is armed that is one relaxed load. Rules come
//! from `fail_loc`, `fail_val` and `fault` (see [`arm_number`], [`arm`]). A simulation puts a
//! [`Plan`] of its own over the thread it runs in. [`report`] gives the counts: points reached
//! while something was armed, and faults made there.

use parking_lot::Mutex;
use std::cell::RefCell;
use std::fmt::Write;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// One fault point.
#[derive(Debug)]
pub struct Point {
    /// Unique; levels separated by dots.
    pub name: &'static str,
    /// Lustre's number; 0: Lustre has no such place.
    pub number: u32,
    /// Fault that happens there unless a rule says otherwise.
    pub usual: Usual,
    /// When it is reached.
    pub about: &'static str,
    reached: AtomicU64,
    fired: AtomicU64,
}

/// Fault of a point without a rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Usual {
    /// The message is lost, and with it the connection, as TCP loses it.
    Drop,
    /// The operation takes `fail_val` seconds longer.
    Delay,
    /// The operation fails with this errno.
    Fail(i32),
    /// The process dies.
    Crash,
}

/// What the code at the point must do. A crash is not among it: it has happened already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Act {
    /// Lose the message.
    Drop,
    /// Wait.
    Delay(Duration),
    /// Fail with this errno.
    Fail(i32),
}

macro_rules! points {
    ($($const:ident $name:literal $number:literal $usual:expr, $about:literal;)*) => {
        $(#[doc = $about] pub static $const: Point = Point {
            name: $name, number: $number, usual: $usual, about: $about,
            reached: AtomicU64::new(0), fired: AtomicU64::new(0),
        };)*

        /// All fault points.
        pub static POINTS: &[&Point] = &[$(&$const),*];
    };
}

points! {
    MDS_REINT_NET "mds.reint.request" 0x107 Usual::Drop, "A request that changes names or attributes came over the network.";
    MDS_REINT_NET_REP "mds.reint.reply" 0x119 Usual::Drop, "Such a request was done, its reply is about to go.";
    MDS_CLOSE_NET "mds.close.request" 0x115 Usual::Drop, "A close came over the network.";
    MDS_CLOSE_NET_REP "mds.close.reply" 0x13b Usual::Drop, "A close was done, its reply is about to go.";
    MDS_ALL_REPLY_NET "mds.reply" 0x122 Usual::Drop, "Any reply of an MDT is about to go over the network.";
    LDLM_ENQUEUE_NET "mds.lock.request" 0x302 Usual::Drop, "A request for a lock came over the network.";
    MDS_LDLM_REPLY_NET "mds.lock.reply" 0x157 Usual::Drop, "A lock was granted, the reply is about to go.";
    LDLM_BL_CALLBACK_NET "client.callback" 0x305 Usual::Drop, "A server asks a client for a lock, over the network.";
    PTLRPC_PAUSE_REQ "rpc.request" 0x50a Usual::Delay, "Any request came over the network.";
    OST_BRW_WRITE_BULK "ost.write.request" 0x20e Usual::Drop, "A write came over the network.";
    OST_BRW_READ_BULK "ost.read.request" 0x20f Usual::Drop, "A read came over the network.";
    OST_BRW_PAUSE_BULK "ost.data.request" 0x214 Usual::Delay, "A read or write came over the network.";
    OST_WRITE_REPLY "ost.write.reply" 0x0 Usual::Drop, "A write was done, its reply is about to go.";
    OST_EROFS "ost.write.erofs" 0x216 Usual::Fail(libc::EROFS), "An OST is about to write.";
    OST_MAPBLK_ENOSPC "ost.write.enospc" 0x228 Usual::Fail(libc::ENOSPC), "An OST is about to take space for a write.";
    MDS_AFTER_APPLY "mds.change.after_apply" 0x0 Usual::Crash, "An MDT has applied a change, nothing of it is durable.";
    MDS_BEFORE_ANSWER "mds.change.before_answer" 0x0 Usual::Delay, "An MDT has applied a change of a client on the network, others may see it, its answer is not on its way.";
    MDS_DESTROY_BEFORE_LOG "mds.destroy.before_log" 0x0 Usual::Crash, "Objects of removed files are gone, their log record is not.";
    MDS_PEER_PREPARE "mds.peer.prepare.request" 0x0 Usual::Drop, "An MDT is asked to prepare its part of an operation over several MDTs.";
    MDS_PEER_PREPARED "mds.peer.prepare.reply" 0x0 Usual::Drop, "It has prepared its part, its reply is about to go.";
    MDS_PEER_APPLY "mds.peer.apply.request" 0x0 Usual::Drop, "An MDT is asked to do its part of an operation that is decided.";
    MDS_PEER_APPLIED "mds.peer.apply.reply" 0x0 Usual::Drop, "It has done its part, its reply is about to go.";
    STORE_BEFORE_COMMIT "store.commit.before" 0x0 Usual::Crash, "A group of changes is about to be made durable.";
    STORE_AFTER_COMMIT "store.commit.after" 0x0 Usual::Crash, "A group is durable, nobody was told.";
}

/// Rules at most.
pub const RULES_MAX: usize = 64;
/// Flags of `fail_loc`, as Lustre has them: once.
pub const ONCE: u32 = 0x8000_0000;
/// A fault happened since it was set (only read).
pub const FAILED: u32 = 0x4000_0000;
/// Skip the first `fail_val`.
pub const SKIP: u32 = 0x2000_0000;
/// Only `fail_val` times.
pub const SOME: u32 = 0x1000_0000;
/// Fails one time in `fail_val`.
pub const RAND: u32 = 0x0800_0000;

/// A rule: which fault happens where.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The fault point.
    pub point: &'static Point,
    /// The fault.
    pub what: Usual,
    /// Of a delay.
    pub delay: Duration,
    /// Delays follow each other, as at a server that works on one thing at a time: each begins when
    /// the one before is over.
    pub in_turn: bool,
    /// Passes over this many first.
    pub skip: u64,
    /// Makes the fault this many times; `u64::MAX`: always.
    pub times: u64,
    /// Makes the fault one time in this many, evenly; at least 1.
    pub one_in: u64,
    by_number: bool,
    seen: u64,
    done: u64,
    /// When the last of the delays that follow each other is over.
    over: Option<Instant>,
}

impl Rule {
    /// How long the next one waits.
    #[allow(clippy::disallowed_methods, reason = "a fault that was asked for takes real time")]
    fn next_delay(&mut self) -> Duration {
        if !self.in_turn {
            return self.delay;
        }
        let now = Instant::now();
        let over = self.over.map_or(now, |over| over.max(now)) + self.delay;
        self.over = Some(over);
        over - now
    }
}

struct Rules {
    rules: Vec<Rule>,
    fail_loc: u32,
    fail_val: u32,
}

static RULES: Mutex<Rules> = Mutex::new(Rules { rules: Vec::new(), fail_loc: 0, fail_val: 0 });
/// Rules, and threads with a plan. 0: no place looks any further.
static ARMED: AtomicU32 = AtomicU32::new(0);

/// Decides for a simulation. A crash is the plan's to make; it answers what the place does then.
pub type Plan = Box<dyn FnMut(&'static Point) -> Option<Act>>;

thread_local! {
    static PLAN: RefCell<Option<Plan>> = const { RefCell::new(None) };
}

/// A plan in force, until it is dropped.
pub struct Planned(());

/// Makes this thread's fault points ask `plan` instead of rules.
pub fn plan(plan: Plan) -> Planned {
    PLAN.with(|slot| *slot.borrow_mut() = Some(plan));
    ARMED.fetch_add(1, Ordering::Relaxed);
    Planned(())
}

impl Drop for Planned {
    fn drop(&mut self) {
        PLAN.with(|slot| *slot.borrow_mut() = None);
        ARMED.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The point is reached. Returns the fault to make, if any.
#[inline]
pub fn hit(point: &'static Point) -> Option<Act> {
    if armed() { look(point) } else { None }
}

/// True if anything is armed. For code that would have to compute first which points it has.
#[inline]
pub fn armed() -> bool {
    ARMED.load(Ordering::Relaxed) != 0
}

/// At a place where nothing can fail, and which may block: only delays and crashes count.
#[allow(clippy::disallowed_methods, reason = "a fault that was asked for stops this very thread")]
#[inline]
pub fn pass(point: &'static Point) {
    if let Some(Act::Delay(delay)) = hit(point) {
        std::thread::sleep(delay);
    }
}

/// As [`hit`], at a point that may block: delays are waited for here. Returns the errno if the
/// operation shall fail. A message that would be lost fails with EIO.
#[allow(clippy::disallowed_methods, reason = "a fault that was asked for stops this very thread")]
#[inline]
pub fn hit_blocking(point: &'static Point) -> Result<(), i32> {
    match hit(point) {
        None => Ok(()),
        Some(Act::Delay(delay)) => {
            std::thread::sleep(delay);
            Ok(())
        }
        Some(Act::Fail(errno)) => Err(errno),
        Some(Act::Drop) => Err(libc::EIO),
    }
}

#[cold]
fn look(point: &'static Point) -> Option<Act> {
    let planned = PLAN.with(|slot| {
        // Taken out while it decides, so that what it does may pass other places.
        let mut plan = slot.borrow_mut().take()?;
        let act = plan(point);
        *slot.borrow_mut() = Some(plan);
        Some(act)
    });
    let act = match planned {
        Some(act) => act,
        None => by_rules(point)?,
    };
    point.reached.fetch_add(1, Ordering::Relaxed);
    if act.is_some() {
        point.fired.fetch_add(1, Ordering::Relaxed);
    }
    act
}

/// `None`: there are no rules.
fn by_rules(point: &'static Point) -> Option<Option<Act>> {
    let mut rules = RULES.lock();
    if rules.rules.is_empty() {
        return None;
    }
    let Rules { rules, fail_loc, .. } = &mut *rules;
    let Some(rule) = rules.iter_mut().find(|rule| std::ptr::eq(rule.point, point)) else {
        return Some(None);
    };
    rule.seen += 1;
    if rule.seen <= rule.skip
        || rule.done >= rule.times
        || !(rule.seen - rule.skip).is_multiple_of(rule.one_in)
    {
        return Some(None);
    }
    rule.done += 1;
    if rule.by_number {
        *fail_loc |= FAILED;
    }
    // A line for each would be too many.
    if !rule.in_turn {
        tracing::warn!(point = point.name, what = ?rule.what, "fault on purpose");
    }
    Some(Some(match rule.what {
        Usual::Drop => Act::Drop,
        Usual::Delay => Act::Delay(rule.next_delay()),
        Usual::Fail(errno) => Act::Fail(errno),
        // As kill -9: no destructor runs, no thread says goodbye.
        Usual::Crash => std::process::abort(),
    }))
}

fn with_rules(change: impl FnOnce(&mut Rules)) {
    let mut rules = RULES.lock();
    let before = rules.rules.len() as u32;
    change(&mut rules);
    let now = rules.rules.len() as u32;
    ARMED.fetch_add(now, Ordering::Relaxed);
    ARMED.fetch_sub(before, Ordering::Relaxed);
}

/// Why a rule cannot be.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadRule {
    /// There is no such place.
    #[error("there is no fault point {0}; `lctl get_param fault_points` lists them")]
    Point(String),
    /// The text does not have the form of a rule.
    #[error(
        "{0:?} is no rule; use POINT[=drop|delay:SECONDS|turn:SECONDS|fail:ERRNO|crash][,skip=N][,times=N][,one_in=N], or clear"
    )]
    Form(String),
    /// Too many.
    #[error("there are {RULES_MAX} rules already; `clear` removes them")]
    TooMany,
}

/// `fail_loc` and `fail_val` as they are set; FAILED says that a fault happened.
pub fn numbers() -> (u32, u32) {
    let rules = RULES.lock();
    (rules.fail_loc, rules.fail_val)
}

/// Sets `fail_val`; counts and seconds of what is armed by number.
pub fn set_value(value: u32) {
    with_rules(|rules| {
        rules.fail_val = value;
        let fail_loc = rules.fail_loc;
        rules
            .rules
            .iter_mut()
            .filter(|rule| rule.by_number)
            .for_each(|rule| *rule = numbered(rule.point, fail_loc, value));
    });
}

/// Sets `fail_loc`: a number with Lustre's flags, 0: nothing.
///
/// # Errors
/// No fault point has this number.
pub fn arm_number(fail_loc: u32) -> Result<(), BadRule> {
    let number = fail_loc & 0xffff;
    let point = POINTS.iter().find(|point| point.number == number && number != 0);
    if point.is_none() && number != 0 {
        return Err(BadRule::Point(format!("{number:#x}")));
    }
    with_rules(|rules| {
        rules.rules.retain(|rule| !rule.by_number);
        rules.fail_loc = fail_loc & !FAILED;
        let value = rules.fail_val;
        rules.rules.extend(point.map(|point| numbered(point, fail_loc, value)));
    });
    Ok(())
}

fn numbered(point: &'static Point, fail_loc: u32, value: u32) -> Rule {
    let value = u64::from(value);
    let flag = |flag: u32| fail_loc & flag != 0;
    Rule {
        // Without a value, Lustre's pauses take a second.
        delay: Duration::from_secs(value.max(1)),
        skip: if flag(SKIP) { value } else { 0 },
        times: match () {
            () if flag(ONCE) => 1,
            () if flag(SOME) => value,
            () => u64::MAX,
        },
        one_in: if flag(RAND) { value.max(1) } else { 1 },
        by_number: true,
        ..plain(point)
    }
}

fn plain(point: &'static Point) -> Rule {
    Rule {
        point,
        what: point.usual,
        delay: Duration::from_secs(1),
        skip: 0,
        times: u64::MAX,
        one_in: 1,
        in_turn: false,
        by_number: false,
        seen: 0,
        done: 0,
        over: None,
    }
}

/// Adds a rule from text (see [`BadRule::Form`]). `clear` removes all rules, those of `fail_loc`
/// too, and all counts.
///
/// # Errors
/// See [`BadRule`].
pub fn arm(text: &str) -> Result<(), BadRule> {
    let text = text.trim();
    if text == "clear" {
        with_rules(|rules| *rules = Rules { rules: Vec::new(), fail_loc: 0, fail_val: 0 });
        for point in POINTS {
            point.reached.store(0, Ordering::Relaxed);
            point.fired.store(0, Ordering::Relaxed);
        }
        return Ok(());
    }
    let bad = || BadRule::Form(text.to_owned());
    let mut words = text.split(',');
    let first = words.next().unwrap_or_default();
    let (name, what) =
        first.split_once('=').map_or((first, None), |(name, what)| (name, Some(what)));
    let point = POINTS
        .iter()
        .find(|point| point.name == name)
        .ok_or_else(|| BadRule::Point(name.to_owned()))?;
    let mut rule = plain(point);
    match what.map(|what| what.split_once(':').unwrap_or((what, ""))) {
        None => {}
        Some(("drop", "")) => rule.what = Usual::Drop,
        Some(("crash", "")) => rule.what = Usual::Crash,
        Some((how @ ("delay" | "turn"), seconds)) => {
            let seconds: f64 = seconds.parse().map_err(|_| bad())?;
            rule.what = Usual::Delay;
            rule.in_turn = how == "turn";
            rule.delay = Duration::try_from_secs_f64(seconds).map_err(|_| bad())?;
        }
        Some(("fail", errno)) => {
            let errno = errno.parse().ok().filter(|errno| (1..4096).contains(errno));
            rule.what = Usual::Fail(errno.ok_or_else(bad)?);
        }
        Some(_) => return Err(bad()),
    }
    for word in words {
        let (key, value) = word.split_once('=').ok_or_else(bad)?;
        let value: u64 = value.parse().map_err(|_| bad())?;
        match key {
            "skip" => rule.skip = value,
            "times" => rule.times = value,
            "one_in" if value > 0 => rule.one_in = value,
            _ => return Err(bad()),
        }
    }
    let mut full = false;
    with_rules(|rules| {
        rules.rules.retain(|old| old.by_number || !std::ptr::eq(old.point, rule.point));
        full = rules.rules.len() >= RULES_MAX;
        if !full {
            rules.rules.push(rule);
        }
    });
    if full { Err(BadRule::TooMany) } else { Ok(()) }
}

/// A line for each rule in force.
pub fn rules() -> String {
    let mut text = String::new();
    for rule in &RULES.lock().rules {
        let what = match rule.what {
            Usual::Drop => "drop".to_owned(),
            Usual::Delay => {
                let how = if rule.in_turn { "turn" } else { "delay" };
                format!("{how}:{}", rule.delay.as_secs_f64())
            }
            Usual::Fail(errno) => format!("fail:{errno}"),
            Usual::Crash => "crash".to_owned(),
        };
        let times =
            if rule.times == u64::MAX { String::new() } else { format!(",times={}", rule.times) };
        let (skip, one_in) = (rule.skip, rule.one_in);
        writeln!(text, "{}={what},skip={skip},one_in={one_in}{times}", rule.point.name)
            .expect("a string takes all");
    }
    text
}

/// A line for each point: name, number, how often it was reached while something was armed, how
/// often it went wrong.
pub fn report() -> String {
    let mut text = String::new();
    for point in POINTS {
        let (reached, fired) =
            (point.reached.load(Ordering::Relaxed), point.fired.load(Ordering::Relaxed));
        let Point { name, number, about, .. } = point;
        writeln!(text, "{name:24} {number:#05x} {reached:>8} {fired:>8}  {about}")
            .expect("a string takes all");
    }
    text
}

/// (name, reached, went wrong) of each point that was reached since the counts were cleared.
pub fn counts() -> Vec<(&'static str, u64, u64)> {
    let count = |point: &&Point| {
        (point.name, point.reached.load(Ordering::Relaxed), point.fired.load(Ordering::Relaxed))
    };
    POINTS.iter().map(count).filter(|(_, reached, _)| *reached > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_and_numbers_are_unique_and_bad_rules_are_named() {
        assert_eq!(
            POINTS.iter().map(|point| point.name).collect::<BTreeSet<_>>().len(),
            POINTS.len()
        );
        let numbers: Vec<u32> =
            POINTS.iter().map(|point| point.number).filter(|number| *number > 0).collect();
        assert_eq!(numbers.iter().collect::<BTreeSet<_>>().len(), numbers.len());
        for bad in [
            "mds.reply=explode",
            "mds.reply=delay:x",
            "mds.reply,skip",
            "mds.reply=fail:0",
            "mds.reply,one_in=0",
        ] {
            assert_eq!(arm(bad), Err(BadRule::Form(bad.to_owned())));
        }
        assert_eq!(arm("nowhere"), Err(BadRule::Point("nowhere".to_owned())));
        assert_eq!(arm_number(0x8000_ffff), Err(BadRule::Point("0xffff".to_owned())));
    }

    /// One test, because rules belong to the process.
    #[test]
    fn rules_count_and_plans_go_before_them() {
        assert_eq!(hit(&OST_EROFS), None);
        arm("ost.write.erofs,skip=1,times=2").unwrap();
        let acts: Vec<_> = (0..5).map(|_| hit(&OST_EROFS)).collect();
        assert_eq!(
            acts,
            [None, Some(Act::Fail(libc::EROFS)), Some(Act::Fail(libc::EROFS)), None, None]
        );
        assert!(counts().contains(&("ost.write.erofs", 5, 2)), "{:?}", counts());
        assert!(rules().contains("ost.write.erofs=fail:30,skip=1,one_in=1,times=2"), "{}", rules());
        arm("clear").unwrap();
        assert_eq!((hit(&OST_EROFS), counts().len(), rules().len()), (None, 0, 0));

        set_value(3);
        arm_number(0x50a | RAND).unwrap();
        let acts: Vec<_> = (0..6).map(|_| hit(&PTLRPC_PAUSE_REQ).is_some()).collect();
        assert_eq!(acts, [false, false, true, false, false, true]);
        assert_eq!(numbers(), (0x50a | RAND | FAILED, 3));
        arm_number(0x119 | ONCE).unwrap();
        assert_eq!([hit(&MDS_REINT_NET_REP), hit(&MDS_REINT_NET_REP)], [Some(Act::Drop), None]);
        assert_eq!(hit(&PTLRPC_PAUSE_REQ), None);
        arm_number(0).unwrap();
        assert_eq!(numbers(), (0, 3));

        arm("rpc.request=turn:3600").unwrap();
        assert!(rules().contains("rpc.request=turn:3600,"), "{}", rules());
        let waits: Vec<Duration> = std::iter::repeat_with(|| hit(&PTLRPC_PAUSE_REQ))
            .take(3)
            .map(|act| match act {
                Some(Act::Delay(delay)) => delay,
                act => panic!("{act:?}"),
            })
            .collect();
        let hours: Vec<u64> = waits.iter().map(|wait| wait.as_secs().div_ceil(3600)).collect();
        assert_eq!(hours, [1, 2, 3], "each begins when the one before is over: {waits:?}");
        arm("clear").unwrap();

        let planned = plan(Box::new(|point| (point.name == "mds.reply").then_some(Act::Drop)));
        assert_eq!((hit(&MDS_ALL_REPLY_NET), hit(&OST_EROFS)), (Some(Act::Drop), None));
        assert_eq!(std::thread::spawn(|| hit(&MDS_ALL_REPLY_NET)).join().unwrap(), None);
        drop(planned);
        assert_eq!(hit(&MDS_ALL_REPLY_NET), None);
        arm("clear").unwrap();
    }
}
