//! Where the bytes of files and the names of directories lie: layouts, and Lustre's forms of them.

pub(super) mod layout;
pub(super) mod lmv;
pub(super) mod lov;
pub(super) mod lov_add;
mod lov_change;
pub(super) mod lov_del;
mod swap;
