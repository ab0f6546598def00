//! Plan of `up`: the settings of last time, changed by the present wishes. Pure.

use crate::config::http_settings::HttpListen;
use crate::config::mount_options::MountOptions;
use crate::config::security::Security;
use crate::config::settings::{Listen, MountSettings, Settings};
use crate::home::Home;
use std::path::PathBuf;
use types::dir_path::DirPath;
use types::limits::TARGETS_MAX;
use types::target::{FsName, TargetKind};

/// Metadata targets of a new file system.
pub const MDTS_DEFAULT: u16 = 1;
/// Object targets of a new file system.
pub const OSTS_DEFAULT: u16 = 2;

/// Values of flags; `None`: as last time, or the default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wanted {
    /// Mount point, absolute.
    pub mount: Option<PathBuf>,
    /// Number of MDTs.
    pub mdts: Option<u16>,
    /// Number of OSTs.
    pub osts: Option<u16>,
    /// File system.
    pub fsname: Option<FsName>,
    /// Address to listen at.
    pub listen: Option<Listen>,
    /// Address for metrics.
    pub http: Option<HttpListen>,
    /// File with the token for it, absolute.
    pub http_token_file: Option<PathBuf>,
    /// Whether connections must show keys.
    pub security: Option<Security>,
    /// File with the key, absolute.
    pub key: Option<PathBuf>,
    /// Stripes of a new file.
    pub stripe_count: Option<u32>,
    /// First bytes of a new file that live on its MDT.
    pub dom_bytes: Option<u64>,
    /// Space of each OST, bytes.
    pub ost_bytes: Option<u64>,
}

/// A target that must exist before the node starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetPlan {
    /// Kind of the target.
    pub kind: TargetKind,
    /// Index of the target.
    pub index: u16,
    /// Directory of the target.
    pub dir: PathBuf,
}

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Settings to run with.
    pub settings: Settings,
    /// Targets of this home; those that do not exist are to be made.
    pub targets: Vec<TargetPlan>,
}

/// The reason why the wishes cannot be met.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Another file system lives there.
    #[error("{} holds the file system {have}, which cannot be renamed to {want}: choose another DIR", .home.display())]
    OtherFileSystem {
        /// The node's home.
        home: PathBuf,
        /// What is there.
        have: FsName,
        /// What was asked for.
        want: FsName,
    },
    /// Targets cannot be taken away.
    #[error("{} has {have} {kind}s already and {want} are asked for: targets cannot be taken away, only added", .home.display())]
    Fewer {
        /// The node's home.
        home: PathBuf,
        /// `MDT` or `OST`.
        kind: &'static str,
        /// What is there.
        have: u16,
        /// What was asked for.
        want: u16,
    },
}

/// Makes the plan. `before` are the settings of last time, with absolute paths.
///
/// # Errors
/// See [`PlanError`].
pub fn plan(home: &Home, before: Option<&Settings>, wanted: &Wanted) -> Result<Plan, PlanError> {
    let mut settings = before.cloned().unwrap_or_default();
    if let Some(want) = wanted.fsname {
        if before.is_some() && settings.fsname != want {
            return Err(PlanError::OtherFileSystem {
                home: home.dir().to_owned(),
                have: settings.fsname,
                want,
            });
        }
        settings.fsname = want;
    }
    settings.listen = wanted.listen.unwrap_or(settings.listen);
    settings.http = wanted.http.unwrap_or(settings.http);
    settings.http_token_file = wanted.http_token_file.clone().or(settings.http_token_file);
    settings.security = wanted.security.unwrap_or(settings.security);
    settings.key = wanted.key.clone().or(settings.key);
    settings.stripe_count = wanted.stripe_count.unwrap_or(settings.stripe_count);
    settings.dom_bytes = wanted.dom_bytes.unwrap_or(settings.dom_bytes);
    settings.ost_bytes = wanted.ost_bytes.or(settings.ost_bytes);
    match (&wanted.mount, settings.mounts.first_mut()) {
        (Some(at), Some(mount)) => mount.at = at.clone(),
        (None, Some(_)) => {}
        (at, None) => {
            let at = at.clone().unwrap_or_else(|| home.mount_point_default());
            settings.mounts.push(MountSettings {
                at,
                directory: DirPath::ROOT,
                options: MountOptions::default(),
            });
        }
    }

    let mut targets = Vec::new();
    for (kind, want, default, max) in [
        // One name, one MGT.
        (TargetKind::Mgt, None, 1, 1),
        (TargetKind::Mdt, wanted.mdts, MDTS_DEFAULT, TARGETS_MAX as u16),
        (TargetKind::Ost, wanted.osts, OSTS_DEFAULT, TARGETS_MAX as u16),
    ] {
        let dir = |index| home.dir().join(Home::target_dir_name(kind, index));
        let have = (0..max).take_while(|i| settings.targets.contains(&dir(*i))).count() as u16;
        // A node that was given other targets by hand (an MGS elsewhere) gets none that it does not
        // ask for.
        let default = if before.is_some() { have } else { default };
        let want = want.unwrap_or(default);
        if want < have {
            return Err(PlanError::Fewer {
                home: home.dir().to_owned(),
                kind: kind.word(),
                have,
                want,
            });
        }
        for index in 0..want {
            targets.push(TargetPlan { kind, index, dir: dir(index) });
            if index >= have {
                settings.targets.push(dir(index));
            }
        }
    }
    Ok(Plan { settings, targets })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home() -> Home {
        Home::new("/h")
    }

    fn names(plan: &Plan) -> Vec<&str> {
        plan.targets.iter().map(|t| t.dir.file_name().unwrap().to_str().unwrap()).collect()
    }

    #[test]
    fn a_fresh_home_gets_the_defaults() {
        let plan = plan(&home(), None, &Wanted::default()).unwrap();
        assert_eq!(names(&plan), ["mgt", "mdt0000", "ost0000", "ost0001"]);
        assert_eq!(plan.settings.mounts[0].at, PathBuf::from("/h/mnt"));
        assert_eq!(plan.settings.listen.to_string(), "127.0.0.1:988");
        plan.settings.check().unwrap();
    }

    #[test]
    fn nothing_wanted_changes_nothing() {
        let wanted = Wanted {
            osts: Some(4),
            mount: Some("/m".into()),
            stripe_count: Some(4),
            ..Wanted::default()
        };
        let first = plan(&home(), None, &wanted).unwrap();
        assert_eq!(plan(&home(), Some(&first.settings), &Wanted::default()).unwrap(), first);
        assert_eq!(plan(&home(), Some(&first.settings), &wanted).unwrap(), first);
    }

    #[test]
    fn targets_are_added_but_not_taken_away() {
        let first = plan(&home(), None, &Wanted::default()).unwrap().settings;
        let more =
            plan(&home(), Some(&first), &Wanted { osts: Some(3), ..Wanted::default() }).unwrap();
        assert_eq!(names(&more), ["mgt", "mdt0000", "ost0000", "ost0001", "ost0002"]);
        assert_eq!(more.settings.targets.len(), 5);
        let fewer = plan(&home(), Some(&first), &Wanted { osts: Some(1), ..Wanted::default() })
            .unwrap_err();
        assert_eq!(
            fewer.to_string(),
            "/h has 2 OSTs already and 1 are asked for: targets cannot be taken away, only added"
        );
    }

    #[test]
    fn a_file_system_keeps_its_name() {
        let first =
            plan(&home(), None, &Wanted { fsname: "one".parse().ok(), ..Wanted::default() })
                .unwrap()
                .settings;
        let error = plan(
            &home(),
            Some(&first),
            &Wanted { fsname: "two".parse().ok(), ..Wanted::default() },
        );
        assert!(matches!(error, Err(PlanError::OtherFileSystem { .. })), "{error:?}");
    }

    #[test]
    fn a_home_with_targets_of_its_own_making_is_left_alone() {
        let before = Settings {
            targets: vec!["/srv/ost7".into()],
            mgs: vec!["10.0.0.1@tcp".parse().unwrap()],
            ..Settings::default()
        };
        let plan = plan(&home(), Some(&before), &Wanted::default()).unwrap();
        assert!(plan.targets.is_empty());
        assert_eq!(plan.settings.targets, before.targets);
    }
}
