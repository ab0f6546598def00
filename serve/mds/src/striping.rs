//! Giving components their OSTs.

use crate::mds::Mds;
use layout::extend::{Osts, extend};
use layout::layout::{Layout, Pattern, PoolName};
use layout::placement::{NoSpace, Want, choose};
use layout::stripe_spec::with_dom_at_most;

impl Mds {
    /// Gives OSTs to every component that covers a byte of `[start, end)` and has none, after
    /// self-extending components were extended to cover the range. Returns whether anything
    /// changed. A pool that does not exist any more restricts no component, because a directory may
    /// still name it.
    ///
    /// # Errors
    /// [`NoSpace`]: no OST can take an object; the layout is unchanged then.
    pub(crate) fn instantiate(
        &self,
        layout: &mut Layout,
        start: u64,
        end: u64,
    ) -> Result<bool, NoSpace> {
        let spaces = self.placement_spaces();
        let mut rotor = self.rotor.lock();
        let mut grown = layout.clone();
        let osts = Osts { spaces: &spaces, pool: &|PoolName(name)| self.targets.pool(name) };
        let extended = extend(&mut grown, start, end, &osts, &mut rotor);
        let mut chosen = Vec::new();
        for (i, c) in grown.components.iter().enumerate() {
            let striped = c.pattern == Pattern::Raid0 && !c.is_empty();
            if striped && c.start < end && start < c.end && !c.is_instantiated() {
                let pool = c.pool.as_ref().and_then(|PoolName(name)| self.targets.pool(name));
                let pool = pool.as_deref();
                let want = Want {
                    count: c.stripe_count,
                    overstriped: c.overstriped,
                    pool,
                    wanted: &c.wanted,
                };
                chosen.push((i, choose(&spaces, &want, &mut rotor)?));
            }
        }
        let changed = extended || !chosen.is_empty();
        for (i, stripes) in chosen {
            grown.components[i].instantiate(stripes);
        }
        if changed {
            grown.generation += 1;
            *layout = grown;
        }
        Ok(changed)
    }

    /// The layout with no more on the MDT than new files get now.
    pub(crate) fn with_dom_of_now(&self, layout: Layout) -> Layout {
        with_dom_at_most(layout, self.tunables.dom.now(), &self.tunables.defaults())
    }

    /// Layout of a new file: that of its directory, else the file system's, with OSTs for its first
    /// byte. If no OST is known it gets them when it is first written.
    pub(crate) fn new_layout(&self, default: Option<Layout>) -> Layout {
        let layout = default.unwrap_or_else(|| self.tunables.layout());
        let mut layout = self.with_dom_of_now(layout);
        layout.generation = 0;
        if let Err(reason) = self.instantiate(&mut layout, 0, 1) {
            tracing::debug!(%reason, "new file gets its OSTs later");
        }
        layout
    }
}
