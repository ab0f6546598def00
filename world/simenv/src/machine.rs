//! Machines and the processes that run on them: what outlives a process belongs to its machine.

use crate::rng::Rng;
use crate::volume::Volume;
use parking_lot::Mutex;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const MILLION: i128 = 1_000_000;

/// Number of a machine, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MachineId(pub u16);

impl MachineId {
    /// Its address.
    pub fn ip(self) -> IpAddr {
        let [high, low] = (self.0 + 1).to_be_bytes();
        IpAddr::V4(Ipv4Addr::new(10, 0, high, low))
    }

    /// Its address on a further cable; 0: that of [`MachineId::ip`].
    pub fn ip_on(self, cable: u8) -> IpAddr {
        match self.ip() {
            IpAddr::V4(ip) => {
                let [first, _, high, low] = ip.octets();
                Ipv4Addr::new(first, cable, high, low).into()
            }
            other => other,
        }
    }

    /// The machine with this address, whichever cable it is on.
    pub(crate) fn of(ip: IpAddr) -> Option<MachineId> {
        match ip {
            IpAddr::V4(ip) => match ip.octets() {
                [10, _, high, low] => u16::from_be_bytes([high, low]).checked_sub(1).map(MachineId),
                _ => None,
            },
            IpAddr::V6(_) => None,
        }
    }
}

/// The cable on which a machine has this address.
pub(crate) fn cable_of(ip: IpAddr) -> u8 {
    match ip {
        IpAddr::V4(ip) => ip.octets()[1],
        IpAddr::V6(_) => 0,
    }
}

/// How fast a disk answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpeed {
    /// Least time of a piece of blocking work, microseconds.
    pub min_us: u64,
    /// Most, usually.
    pub max_us: u64,
    /// In this many of 1000 cases it takes up to `stall_us`.
    pub stalls: u64,
    /// See above, microseconds.
    pub stall_us: u64,
}

impl Default for DiskSpeed {
    fn default() -> DiskSpeed {
        DiskSpeed { min_us: 20, max_us: 400, stalls: 5, stall_us: 20_000 }
    }
}

/// Errors of a machine's clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skew {
    /// Wall time is this much ahead, milliseconds.
    pub wall_ms: i64,
    /// Both run this much too fast, millionths.
    pub rate_ppm: i32,
}

impl Skew {
    /// What the clock shows after this much true time.
    pub(crate) fn shown(self, real: Duration) -> Duration {
        let nanos = real.as_nanos() as i128;
        Duration::from_nanos((nanos + nanos * i128::from(self.rate_ppm) / MILLION).max(0) as u64)
    }

    /// True time until the clock has shown so much more: rounded up.
    pub(crate) fn real(self, shown: Duration) -> Duration {
        let nanos = (shown.as_nanos() as i128).min(i128::from(u64::MAX) / 4);
        Duration::from_nanos((nanos * MILLION / (MILLION + i128::from(self.rate_ppm))) as u64 + 2)
    }
}

/// A machine: a disk, a clock, an address.
pub(crate) struct Machine {
    pub(crate) id: MachineId,
    pub(crate) volume: Arc<Volume>,
    pub(crate) skew: Mutex<Skew>,
    pub(crate) speed: Mutex<(DiskSpeed, Rng)>,
}

impl Machine {
    /// Duration of a piece of blocking work.
    pub(crate) fn delay(&self) -> Duration {
        let (speed, rng) = &mut *self.speed.lock();
        let most = if rng.chance(speed.stalls) { speed.stall_us } else { speed.max_us };
        Duration::from_micros(rng.between(speed.min_us, most))
    }
}

/// One run of a program on a machine.
pub struct Process {
    pub(crate) id: u64,
    pub(crate) machine: Arc<Machine>,
    pub(crate) began: Duration,
    pub(crate) skew: Skew,
    pub(crate) alive: AtomicBool,
}

impl Process {
    /// True if it has not been killed.
    pub fn is_alive(&self) -> bool {
        self.alive.load(Ordering::Relaxed)
    }

    /// The machine that it runs on.
    pub fn machine(&self) -> MachineId {
        self.machine.id
    }
}

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kill {
    /// The process dies; its machine's kernel keeps what was written, and tells its peers.
    Process,
    /// The machine loses power: what was not synced is lost, torn or kept as the seed says; peers
    /// hear nothing.
    Power,
}
