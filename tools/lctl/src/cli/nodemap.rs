//! Arguments of `lctl nodemap_*`.

use clap::Args;
use idmap::nodemap::NodemapName;

/// Let nodemaps hold, or no longer
///
/// Without an argument: they hold. Each client is then in one; the nodemap default squashes all
/// users of clients that are in no other, until it is modified.
#[derive(Debug, Args)]
pub struct NodemapActivateArgs {
    /// 1: they hold; 0: no longer
    #[arg(value_name = "0|1", value_parser = clap::value_parser!(u8).range(0..=1))]
    pub on: Option<u8>,
}

impl NodemapActivateArgs {
    /// They are to hold.
    pub fn active(&self) -> bool {
        self.on != Some(0)
    }
}

/// Make a nodemap
///
/// It has no clients yet, knows no ids, and squashes root.
#[derive(Debug, Args)]
pub struct NodemapAddArgs {
    /// 1 to 16 letters, digits or _
    #[arg(value_name = "NODEMAP")]
    pub name: NodemapName,
}

/// Take a nodemap away
///
/// Its clients are in the nodemap default from then on.
#[derive(Debug, Args)]
pub struct NodemapDelArgs {
    /// The nodemap
    #[arg(value_name = "NODEMAP")]
    pub name: NodemapName,
}

/// Set a property of a nodemap
///
/// admin: root acts as root (0, 1). trusted: ids are the same on both sides (0, 1). deny_unknown:
/// users that the id maps do not know are refused instead of squashed (0, 1). squash_uid,
/// squash_gid: as which squashed users act. map_mode: which ids are mapped (both, uid, gid).
/// readonly_mount: clients change nothing (0, 1). audit_mode: what they change, and what they are
/// refused, is written down at the servers (0, 1).
#[derive(Debug, Args)]
pub struct NodemapModifyArgs {
    /// The nodemap
    #[arg(long, value_name = "NODEMAP")]
    pub name: NodemapName,
    /// The property
    #[arg(long, value_name = "PROPERTY")]
    pub property: String,
    /// Its value
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    pub value: String,
}

/// Put clients into a nodemap
///
/// By NID, or by the name of their key: a key counts before a NID. No client can be in two.
#[derive(Debug, Args)]
pub struct NodemapRangeArgs {
    /// The nodemap
    #[arg(long, value_name = "NODEMAP")]
    pub name: NodemapName,
    /// 10.0.[1-3].*@tcp, 10.1.0.0/16@tcp, fd00::/8@tcp, node7@key, tenant-*@key
    #[arg(long, value_name = "RANGE")]
    pub range: String,
}

/// Put ids into a map of a nodemap
///
/// The client's ids are those of the file system from then on, and are shown as the client's. An id
/// stands once on each side; neither may be 0 or that of squashed users.
#[derive(Debug, Args)]
pub struct NodemapIdmapArgs {
    /// The nodemap
    #[arg(long, value_name = "NODEMAP")]
    pub name: NodemapName,
    /// uid or gid
    #[arg(long, value_name = "uid|gid")]
    pub idtype: String,
    /// 1000:5000, or 1000-1999:5000 for as many consecutive ids
    #[arg(long, value_name = "CLIENTID:FSID")]
    pub idmap: String,
}

/// Show nodemaps
///
/// Their names; one of them; or all.
#[derive(Debug, Args)]
pub struct NodemapInfoArgs {
    /// list, all, or a nodemap
    #[arg(value_name = "list|all|NODEMAP", default_value = "list")]
    pub which: String,
}

/// Show the nodemap of a client
#[derive(Debug, Args)]
pub struct NodemapTestNidArgs {
    /// Its NID, or its key: node7@key
    #[arg(value_name = "NID")]
    pub nid: String,
}

/// Show the id as which one of a client acts
#[derive(Debug, Args)]
pub struct NodemapTestIdArgs {
    /// NID of the client, or its key: node7@key
    #[arg(long, value_name = "NID")]
    pub nid: String,
    /// uid or gid
    #[arg(long, value_name = "uid|gid")]
    pub idtype: String,
    /// The id
    #[arg(long, value_name = "ID")]
    pub id: u32,
}

/// Set the directory that the clients of a nodemap mount
///
/// It is the root of each mount that such a client makes from then on; a mount of a directory is
/// below it. The root of the file system is refused to them, also in mounts that they have. A
/// directory that does not exist lets no client of the nodemap mount.
#[derive(Debug, Args)]
pub struct NodemapSetFilesetArgs {
    /// The nodemap
    #[arg(long, value_name = "NODEMAP")]
    pub name: NodemapName,
    /// Path from the root of the file system: /tenants/a; clear, or nothing, for none
    #[arg(long, value_name = "DIRECTORY")]
    pub fileset: String,
}
