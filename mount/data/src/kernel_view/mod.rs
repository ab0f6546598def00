//! What the kernel may believe, as far as this mount can know, and how it is made to forget
//! (docs/locks/kernel.md).
//!
//! The kernel caches names, attributes, pages and the ends of files. It learns and forgets in steps
//! of its own, so each rule here answers a race. The numbers are those of the table of races:
//!
//! | part | rows |
//! |---|---|
//! | [`kernel_cache`]: how names and attributes are forgotten without waiting for this mount | R1, R2, R3, R11 |
//! | [`invalidations`]: what is to be forgotten, and which names are dropped | R2, R3 |
//! | [`recent`]: names and links that the kernel changes on its own a moment after an answer; what was called back a moment ago | R3, R4, R6, R7, R12 |
//! | [`given_back`]: inodes that it gives back while they are shown to it | R47 |
//! | [`reply_barrier`]: answers on their way to the kernel | R10, R26 |
//! | [`kernel_eof`]: where it believes files to end whose pages it has | R15, R18, R19, R21, R32 |
//! | [`timers`]: all times, with their reasons | R1, R3, R4, R6, R11 to R16, R28, R30 |
//!
//! Elsewhere, because their rule is a step of an operation:
//!
//! | where | rows |
//! |---|---|
//! | `locks::table`: which names and attributes the kernel was told of | R2, R4, R7, R12, R25 |
//! | `locks::data_guards`, `guard`, `writeback::holder`: reads and writes while pages go | R14, R30 |
//! | `show_eof`: the last byte goes before attributes with a later end | R15, R18, R19 |
//! | `read`, `writeback::absorb`: pages are read under the whole lock; the grain of times | R17, R28, R31 |
//! | `client`: what an answer carries | R5, R8, R9, R13, R16, R20, R21, R24, R32 |
//! | `fuse`: what goes to the kernel with an answer, or after it | R3, R10, R16, R22, R23, R24 |
//! | `node`: a directory keeps its number when it gets another inode | R48 |
//! | `session::validity`: trust ends before the MDT may evict | R27 |

pub mod given_back;
pub mod invalidations;
pub mod kernel_cache;
pub mod kernel_eof;
pub mod recent;
pub mod reply_barrier;
pub mod timers;
