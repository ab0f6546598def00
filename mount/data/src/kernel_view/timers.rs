//! Every time for which something of the kernel is believed, waited for or avoided.
//!
//! The kernel does not report when it has read an answer, come to a second step, or given up a
//! page. Where no order of messages helps, a time stands in for it; each is here, with the row of
//! docs/locks/kernel.md that it belongs to, and the reason for its length.

use std::time::Duration;

/// Length of a tick, about: the interval at which the mount looks after its locks.
pub const TICK: Duration = Duration::from_secs(1);

/// R1: time that dropping names may take, with no request of this mount in their directories,
/// before `inc_epoch` does it. Such a directory's lock is free soon; if it is not, another client
/// waits, and the epoch costs less than that.
pub(crate) const NAMES_WAIT: Duration = Duration::from_millis(100);
/// R1: interval at which it is checked whether such a request has begun. It bounds what such a
/// request costs another client.
pub(crate) const NAMES_LOOK: Duration = Duration::from_millis(2);

/// R3, R6, R12: ticks after which the kernel has surely read an answer: more than one second. A
/// kernel thread that does not run for longer may show what was (R35).
pub(crate) const RECENT_TICKS: u32 = 2;
/// R4: ticks after a callback for which names of directories that the kernel asks for again are not
/// trusted. Longer than R3's: such a name is not dropped, so a late answer would make it valid for
/// as long as that answer says.
pub(crate) const REVOKED_TICKS: u32 = 8;

/// R11: pauses between attempts to find an inode that the kernel is just making. Short at first,
/// for making it takes microseconds; their sum, 256 ms, bounds the wait.
pub const ATTEMPTS: [Duration; 13] = {
    let us = Duration::from_micros;
    [
        us(20),
        us(50),
        us(100),
        us(250),
        us(500),
        us(1000),
        us(2000),
        us(4000),
        us(8000),
        us(16_000),
        us(32_000),
        us(64_000),
        us(128_000),
    ]
};

/// R13: time after an ESTALE for which files are held that names lead to: the kernel tries again at
/// once.
pub const CAREFUL: Duration = Duration::from_secs(1);
/// R13: time for which such a file is held: until the kernel has surely come to its second step.
pub const HELD: Duration = Duration::from_secs(2);

/// R14: how often the kernel is told to drop its pages, because it read some meanwhile. Beyond it
/// the last ones go after the callback is answered (R36).
pub const ROUNDS_MAX: usize = 32;
/// R14: pause before the second time; twice as long before each further one, up to [`PAUSE_MAX`].
/// Readers that come to the end of the file wait (R15); the others get there meanwhile.
pub const PAUSE_MIN: Duration = Duration::from_micros(100);
/// R14: with [`ROUNDS_MAX`] rounds some 100 ms in all.
pub const PAUSE_MAX: Duration = Duration::from_millis(4);

/// R15: how long attributes wait at most for a callback that drops pages of their file. A reader
/// that comes to the file's end meanwhile would be asked to read again, and the callback would wait
/// for that. Longer than all pauses of R14 together.
pub(crate) const PAGES_GO: Duration = Duration::from_secs(1);

/// R16: for this long after its data was called back, a file is opened without the kernel's page
/// cache: pages that go again and again are of no use.
pub(crate) const CONTENDED: Duration = Duration::from_secs(2);

/// R28: grain of the time of a write where the kernel keeps pages of its writes (`localflock`,
/// `noflock`): it drops all pages of a file when it sees another time than before. So a linker,
/// which writes and reads by turns, reads its own pages. As coarse as the times of a local file
/// system: a tick of 250 Hz.
pub(crate) const MTIME_GRAIN: Duration = Duration::from_millis(4);

/// R30: a read or count that waits for its OST lets go of its lock when a callback has waited for
/// the file for this long, and begins again: well within a lease, and longer than an OST that
/// answers takes.
pub(crate) const GIVES_WAY: Duration = Duration::from_secs(5);
