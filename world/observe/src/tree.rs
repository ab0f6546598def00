//! The parameter tree of one process, at one moment: entries with their values, found by pattern.
//!
//! The owner of a device adds its entries when the tree is asked for. Nothing is registered, so
//! nothing is left behind when an owner goes. In a name the levels are separated by `/`, because
//! NIDs have dots in them. In a pattern `.` stands for either, and `*`, `?`, `[]`, `{a,b}` never
//! cross a level.

use crate::param::Param;
use fast_glob::glob_match;
use std::collections::BTreeMap;
use std::pin::Pin;
use types::errno::Errno;

/// Longest pattern, bytes.
pub const PATTERN_BYTES_MAX: usize = 1024;

/// An answer that may have to be waited for.
pub type Later<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type Get = Box<dyn Fn() -> Later<Result<String, Errno>> + Send + Sync>;
type Set = Box<dyn Fn(String) -> Later<Result<(), Errno>> + Send + Sync>;

/// One parameter of one device.
pub struct Entry {
    /// Declaration of the parameter.
    pub param: &'static Param,
    /// True if it is a gauge of `/metrics`.
    pub gauge: bool,
    get: Option<Get>,
    set: Option<Set>,
}

impl Entry {
    /// Reads its value, without a line end unless it has several lines.
    ///
    /// # Errors
    /// EACCES: it can only be set. EOPNOTSUPP: its declaration says why there is nothing to show.
    /// Other errors come from the parameter itself.
    pub async fn get(&self) -> Result<String, Errno> {
        match &self.get {
            Some(get) => get().await,
            None if self.param.governed.is_empty() => Err(Errno::EACCES),
            None => Err(Errno::EOPNOTSUPP),
        }
    }

    /// Sets it.
    ///
    /// # Errors
    /// EACCES: it can only be read. EINVAL, ERANGE: the value is not allowed. EOPNOTSUPP: its
    /// declaration says what decides its value, and the present value is another one. Other errors
    /// come from the parameter itself.
    pub async fn set(&self, value: String) -> Result<(), Errno> {
        match (&self.set, &self.get) {
            (Some(set), _) => set(value).await,
            (None, _) if self.param.governed.is_empty() => Err(Errno::EACCES),
            (None, Some(get)) if get().await?.trim() == value.trim() => Ok(()),
            (None, _) => Err(Errno::EOPNOTSUPP),
        }
    }
}

/// Result of looking up a pattern.
pub enum Found<'a> {
    /// A parameter.
    Param(&'a Entry),
    /// A level above parameters.
    Level,
}

/// The pattern is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no pattern of parameters")]
pub struct BadPattern(pub String);

/// All entries.
#[derive(Default)]
pub struct Tree {
    entries: BTreeMap<String, Entry>,
}

impl Tree {
    /// Empty.
    pub fn new() -> Tree {
        Tree::default()
    }

    /// Entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds a part of what another entry shows. `/metrics`, whose readers add devices up, leaves it
    /// out.
    pub fn shows_part(
        &mut self,
        param: &'static Param,
        devices: &[&str],
        get: impl Fn() -> Result<String, Errno> + Send + Sync + 'static,
    ) {
        self.shows(param, devices, get);
        self.entry(param, devices).gauge = false;
    }

    /// Adds an entry that is read at once. `devices` fill the `*` of the declaration's path, in
    /// order.
    pub fn shows(
        &mut self,
        param: &'static Param,
        devices: &[&str],
        get: impl Fn() -> Result<String, Errno> + Send + Sync + 'static,
    ) {
        self.asks(param, devices, move || Box::pin(std::future::ready(get())));
    }

    /// Adds an entry whose value must be waited for.
    pub fn asks(
        &mut self,
        param: &'static Param,
        devices: &[&str],
        get: impl Fn() -> Later<Result<String, Errno>> + Send + Sync + 'static,
    ) {
        self.entry(param, devices).get = Some(Box::new(get));
    }

    /// Makes an entry settable at once, also one that was added to be read.
    pub fn takes(
        &mut self,
        param: &'static Param,
        devices: &[&str],
        set: impl Fn(&str) -> Result<(), Errno> + Send + Sync + 'static,
    ) {
        self.does(param, devices, move |value| Box::pin(std::future::ready(set(&value))));
    }

    /// Adds an entry whose setting must be waited for.
    pub fn does(
        &mut self,
        param: &'static Param,
        devices: &[&str],
        set: impl Fn(String) -> Later<Result<(), Errno>> + Send + Sync + 'static,
    ) {
        self.entry(param, devices).set = Some(Box::new(set));
    }

    /// Adds an entry that has nothing beyond its declaration.
    pub fn explains(&mut self, param: &'static Param, devices: &[&str]) {
        self.entry(param, devices);
    }

    fn entry(&mut self, param: &'static Param, devices: &[&str]) -> &mut Entry {
        let name = name_of(param, devices);
        self.entries.entry(name).or_insert(Entry {
            param,
            gauge: param.gauge,
            get: None,
            set: None,
        })
    }

    /// Every entry, by name.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.entries.iter().map(|(name, entry)| (name.as_str(), entry))
    }

    /// The entries that the pattern matches, by name. `recursive`: also everything below.
    ///
    /// # Errors
    /// [`BadPattern`].
    pub fn find(
        &self,
        pattern: &str,
        recursive: bool,
    ) -> Result<BTreeMap<&str, Found<'_>>, BadPattern> {
        let matcher = compile(pattern)?;
        let mut found = BTreeMap::new();
        for (name, entry) in &self.entries {
            let mut inside = false;
            for (at, _) in name.match_indices('/') {
                let level = &name[..at];
                if inside || matcher.is_match(level) {
                    found.entry(level).or_insert(Found::Level);
                    inside = recursive;
                }
            }
            if inside || matcher.is_match(name) {
                found.insert(name.as_str(), Found::Param(entry));
            }
        }
        Ok(found)
    }
}

/// The full name of a parameter of these devices.
fn name_of(param: &Param, devices: &[&str]) -> String {
    let mut devices = devices.iter();
    let levels = param.path.split('.').map(|level| match level {
        "*" => devices.next().copied().unwrap_or("*"),
        fixed => fixed,
    });
    levels.collect::<Vec<_>>().join("/")
}

/// A pattern of names, checked.
struct Matcher(String);

impl Matcher {
    fn is_match(&self, name: &str) -> bool {
        glob_match(&self.0, name)
    }
}

fn compile(pattern: &str) -> Result<Matcher, BadPattern> {
    let bad = || BadPattern(pattern.to_owned());
    if pattern.is_empty() || pattern.len() > PATTERN_BYTES_MAX {
        return Err(bad());
    }
    let mut text = String::with_capacity(pattern.len() + 16);
    let mut in_class = false;
    // No pattern is a negation: "!" is a letter.
    if pattern.starts_with('!') {
        text.push('\\');
    }
    for letter in pattern.chars() {
        match letter {
            '.' if !in_class => text.push_str("{.,/}"),
            _ => text.push(letter),
        }
        in_class = letter == '[' || (in_class && letter != ']');
    }
    fast_glob::validate(&text).map_err(|_| bad())?;
    Ok(Matcher(text))
}

/// The last level of a pattern: it decides which parameters the pattern can mean, whatever the
/// levels before it say about devices.
pub(crate) struct LastLevel(Option<Matcher>);

impl LastLevel {
    /// Of this pattern.
    pub(crate) fn of(pattern: &str) -> Result<LastLevel, BadPattern> {
        compile(pattern)?;
        let (mut inside, mut in_class, mut escaped, mut last) = (0_usize, false, false, Some(0));
        for (at, letter) in pattern.char_indices() {
            match letter {
                _ if std::mem::take(&mut escaped) => {}
                '\\' => escaped = true,
                ']' => in_class = false,
                _ if in_class => {}
                '[' => in_class = true,
                '{' => inside += 1,
                '}' => inside = inside.saturating_sub(1),
                '.' | '/' if inside > 0 => last = None,
                '.' | '/' => last = last.map(|_| at + 1),
                _ => {}
            }
        }
        // Levels within braces are not looked at.
        Ok(LastLevel(last.and_then(|at| compile(&pattern[at..]).ok())))
    }

    /// True if the pattern can mean this parameter.
    pub(crate) fn may_be(&self, param: &Param) -> bool {
        self.0.as_ref().is_none_or(|last| last.is_match(param.name()))
    }
}

/// A name as people write it: levels separated by dots.
pub fn dotted(name: &str) -> String {
    name.replace('/', ".")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{
        LOD_STRIPECOUNT, MDT_EXPORT_UUID, OSC_MAX_PAGES_PER_RPC, OSC_PING, OSC_RESEND_COUNT,
        OSC_STATE, OSC_STATS, VERSION,
    };

    fn tree() -> Tree {
        let mut tree = Tree::new();
        let text = |text: &'static str| move || Ok(text.to_owned());
        tree.shows(&VERSION, &[], text("1.2"));
        for osc in ["sheen-OST0000-osc-00ff", "sheen-OST0001-osc-00ff"] {
            tree.shows(&OSC_STATS, &[osc], text("a\nb\n"));
            tree.shows(&OSC_STATE, &[osc], text("FULL"));
            tree.takes(&OSC_PING, &[osc], |_| Ok(()));
        }
        tree.shows(&MDT_EXPORT_UUID, &["sheen-MDT0000", "10.0.0.1@tcp"], text("u"));
        tree
    }

    fn names(pattern: &str, recursive: bool) -> Vec<String> {
        tree().find(pattern, recursive).unwrap().keys().map(|name| dotted(name)).collect()
    }

    #[test]
    fn patterns_mean_what_a_shell_s_would() {
        let both = ["osc.sheen-OST0000-osc-00ff.stats", "osc.sheen-OST0001-osc-00ff.stats"];
        for pattern in [
            "osc.*.stats",
            "osc/*/stats",
            "osc.*OST000?*.stats",
            "osc.*-osc-[-0-9a-f]*.stats",
            "o*.*.stats",
        ] {
            assert_eq!(names(pattern, false), both, "{pattern}");
        }
        assert_eq!(names("osc.*OST0001*.{stats,state}", false).len(), 2);
        assert_eq!(names("*.stats", false), [""; 0], "a star does not cross a level");
        assert_eq!(names("version", false), ["version"]);
        assert_eq!(names("nothing", false), [""; 0]);
        assert_eq!(names("!nothing", false), [""; 0], "no pattern is a negation");
    }

    #[test]
    fn dots_of_a_nid_are_no_levels() {
        let name = "mdt.sheen-MDT0000.exports.10.0.0.1@tcp.uuid";
        for pattern in [
            name,
            "mdt.*.exports.10.0.0.1@tcp.uuid",
            "mdt.*.exports.*.uuid",
            "mdt/*/exports/10.0.0.1@tcp/uuid",
        ] {
            assert_eq!(names(pattern, false), [name], "{pattern}");
        }
    }

    #[test]
    fn levels_are_found_and_walked() {
        assert_eq!(names("*", false), ["mdt", "osc", "version"]);
        assert_eq!(
            names("osc.*", false),
            ["osc.sheen-OST0000-osc-00ff", "osc.sheen-OST0001-osc-00ff"]
        );
        assert_eq!(names("mdt", true).len(), 5);
        assert_eq!(names("*", true).len(), 1 + 5 + 9);
    }

    #[test]
    fn bad_patterns_are_refused() {
        for pattern in ["", "osc.[", "osc.{a", &"a".repeat(PATTERN_BYTES_MAX + 1)] {
            assert!(tree().find(pattern, false).is_err(), "{pattern:?}");
        }
    }

    #[test]
    fn what_may_not_be_done_is_refused() {
        let tree = tree();
        let run = |work: Later<Result<String, Errno>>| {
            let mut work = work;
            match work.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop()))
            {
                std::task::Poll::Ready(result) => result,
                std::task::Poll::Pending => panic!("nothing here waits"),
            }
        };
        let mut found = tree.find("osc.*OST0000*.*", false).unwrap();
        let Some(Found::Param(ping)) = found.remove("osc/sheen-OST0000-osc-00ff/ping") else {
            panic!("ping")
        };
        let Some(Found::Param(state)) = found.remove("osc/sheen-OST0000-osc-00ff/state") else {
            panic!("state")
        };
        let (mut get, mut set) = (Box::pin(ping.get()), Box::pin(state.set("x".into())));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert_eq!(get.as_mut().poll(&mut context), std::task::Poll::Ready(Err(Errno::EACCES)));
        assert_eq!(set.as_mut().poll(&mut context), std::task::Poll::Ready(Err(Errno::EACCES)));
        let Some(Found::Param(stats)) = found.remove("osc/sheen-OST0000-osc-00ff/stats") else {
            panic!("stats")
        };
        assert_eq!(run((stats.get.as_ref().unwrap())()), Ok("a\nb\n".to_owned()));
    }

    #[test]
    fn what_is_governed_takes_only_the_value_that_it_has() {
        let mut tree = Tree::new();
        tree.shows(&OSC_MAX_PAGES_PER_RPC, &["o"], || Ok("4096".to_owned()));
        tree.explains(&OSC_RESEND_COUNT, &["o"]);
        fn at_once<T>(work: impl Future<Output = T>) -> T {
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            match std::pin::pin!(work).poll(&mut context) {
                std::task::Poll::Ready(result) => result,
                std::task::Poll::Pending => panic!("nothing here waits"),
            }
        }
        let entry = |name: &str| tree.entries().find(|(known, _)| *known == name).unwrap().1;
        let pages = entry("osc/o/max_pages_per_rpc");
        assert_eq!(
            at_once(pages.set("4096\n".into())),
            Ok(()),
            "who restores what was read is let be"
        );
        assert_eq!(at_once(pages.set("256".into())), Err(Errno::EOPNOTSUPP));
        let count = entry("osc/o/resend_count");
        assert_eq!(at_once(count.get()), Err(Errno::EOPNOTSUPP));
        assert_eq!(at_once(count.set("10".into())), Err(Errno::EOPNOTSUPP));
    }

    #[test]
    fn names_are_the_path_with_its_devices() {
        assert_eq!(
            name_of(&LOD_STRIPECOUNT, &["sheen-MDT0000-mdtlov"]),
            "lod/sheen-MDT0000-mdtlov/stripecount"
        );
        assert_eq!(name_of(&VERSION, &[]), "version");
    }
}
