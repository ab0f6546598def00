//! `lustre.lov.add`: components after those of a file. `lfs setstripe --component-add`.
//!
//! Only ranges without a component are covered now, so bytes stay where they are and old layouts
//! stay right.

use crate::mds::{Mds, RequestContext};
use crate::ops::layouts::lov::without_ignored;
use layout::layout::{Component, Layout};
use layout::lov_ea;
use layout::stripe_spec::{Defaults, complete};
use types::errno::Errno;
use types::fid::Fid;
use types::limits::XATTR_VALUE_BYTES_MAX;
use wire::mds::MdsReply;

/// Attribute that is only written.
pub(in crate::ops) const LOV_ADD: &[u8] = b"lustre.lov.add";

impl Mds {
    /// # Errors
    /// EINVAL: no components, not where the file ends, or on OSTs that do not exist; E2BIG: too
    /// many to be shown; others as [`Mds::change_layout`].
    pub(in crate::ops) fn add_components(
        &self,
        request: &mut RequestContext<'_>,
        fid: Fid,
        value: &[u8],
    ) -> Result<MdsReply, Errno> {
        let refused = |error: &(dyn std::error::Error + 'static)| {
            tracing::debug!(error, "components refused");
            Errno::EINVAL
        };
        let mut more = lov_ea::decode(value).map_err(|e| refused(&e))?;
        more.layout.components.iter_mut().for_each(Component::want_stripes);
        if more.layout.components.is_empty() {
            return Err(Errno::EINVAL);
        }
        let defaults =
            Defaults { dom_bytes_max: types::limits::DOM_BYTES_MAX, ..self.tunables.defaults() };
        self.change_layout(request, fid, |old| {
            let layout = complete(joined(old, &more.layout), &defaults).map_err(|e| refused(&e))?;
            self.check_wanted(&layout)?;
            match lov_ea::bytes_at_most(&layout, self.spaces.get().len()) > XATTR_VALUE_BYTES_MAX {
                true => Err(Errno::E2BIG),
                false => Ok(layout),
            }
        })
    }
}

/// Components behind others, with numbers of their own.
fn joined(old: &Layout, more: &Layout) -> Layout {
    let (mut layout, mut more) = (old.clone(), more.clone());
    layout.generation += 1;
    for (id, c) in (old.next_instance()..).zip(&mut more.components) {
        c.id = id;
    }
    layout.components.append(&mut more.components);
    without_ignored(&mut layout);
    layout
}
