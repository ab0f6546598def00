//! The declaration of a parameter. Help, documentation and the tree are all made from it.

/// What may be done with a parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Access {
    /// Only shown.
    Read,
    /// Only set.
    Write,
    /// Both.
    ReadWrite,
    /// Neither: the parameter is listed, and a reader is told what there is instead
    /// ([`Param::governed`]).
    Explained,
}

impl Access {
    /// True if it may be read.
    pub const fn readable(self) -> bool {
        matches!(self, Access::Read | Access::ReadWrite)
    }

    /// True if it may be set.
    pub const fn writable(self) -> bool {
        matches!(self, Access::Write | Access::ReadWrite)
    }

    /// For people: `read`, `set`, `read, set`.
    pub const fn words(self) -> &'static str {
        match self {
            Access::Read => "read",
            Access::Write => "set",
            Access::ReadWrite => "read, set",
            Access::Explained => "explained",
        }
    }
}

/// One parameter, for all the places where it exists. Declared once, in [`crate::catalog`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Param {
    /// Lustre's path, levels separated by dots, `*` for the level that names the device:
    /// `osc.*.stats`.
    pub path: &'static str,
    /// What it says or does, in a sentence or two.
    pub help: &'static str,
    /// Unit of its value; empty for text.
    pub unit: &'static str,
    /// Value at start; empty where that makes no sense.
    pub default: &'static str,
    /// The values that may be set; empty if it cannot be set.
    pub range: &'static str,
    /// What may be done with it.
    pub access: Access,
    /// True if it is a number that goes up and down, so that `/metrics` shows it as a gauge.
    pub gauge: bool,
    /// True if writing it does something at that moment, or harm: it is never kept
    /// ([`crate::catalog::not_kept`]).
    pub acts: bool,
    /// True if the value `clear` is one like others, and does nothing but to empty the parameter.
    pub value_may_clear: bool,
    /// What decides its value, or a part of its range, in one sentence; empty if setting it does. A
    /// setting that is refused with EOPNOTSUPP is refused in these words.
    pub governed: &'static str,
}

impl Param {
    /// A parameter that is only shown.
    pub const fn shown(path: &'static str, unit: &'static str, help: &'static str) -> Param {
        Param {
            path,
            help,
            unit,
            default: "",
            range: "",
            access: Access::Read,
            gauge: false,
            acts: false,
            value_may_clear: false,
            governed: "",
        }
    }

    /// A number that is shown here and as a gauge in `/metrics`.
    pub const fn gauge(path: &'static str, unit: &'static str, help: &'static str) -> Param {
        Param { gauge: true, ..Param::shown(path, unit, help) }
    }

    /// Counts that are shown, and cleared when anything is written.
    pub const fn counts(path: &'static str, help: &'static str) -> Param {
        Param {
            access: Access::ReadWrite,
            range: "anything: clears",
            acts: true,
            ..Param::shown(path, "", help)
        }
    }

    /// A parameter that is shown and set.
    pub const fn setting(
        path: &'static str,
        unit: &'static str,
        default: &'static str,
        range: &'static str,
        help: &'static str,
    ) -> Param {
        Param { default, range, access: Access::ReadWrite, ..Param::shown(path, unit, help) }
    }

    /// A parameter that only does something when it is set.
    pub const fn command(path: &'static str, range: &'static str, help: &'static str) -> Param {
        Param { access: Access::Write, range, acts: true, ..Param::shown(path, "", help) }
    }

    /// A parameter that is shown, and whose value follows from what `governed` says: only its
    /// present value can be set.
    pub const fn governed(
        path: &'static str,
        unit: &'static str,
        help: &'static str,
        governed: &'static str,
    ) -> Param {
        Param { governed, ..Param::shown(path, unit, help) }
    }

    /// A parameter of Lustre that has no value here: `governed` says why, and what to look at
    /// instead.
    pub const fn explained(path: &'static str, governed: &'static str) -> Param {
        Param { access: Access::Explained, ..Param::governed(path, "", "", governed) }
    }

    /// What may be done with it, for people: `read, set, not kept`.
    pub fn may_be(&self) -> String {
        format!("{}{}", self.access.words(), if self.acts { ", not kept" } else { "" })
    }

    /// Own name: the last level of the path.
    pub fn name(&self) -> &'static str {
        self.path.rsplit('.').next().unwrap_or(self.path)
    }
}
