//! Sequences of untrusted length for serde: memory follows the elements that really came, not the
//! promised count.

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::marker::PhantomData;

/// For `#[serde(deserialize_with)]`: like `Vec`'s own, without believing the announced length.
pub fn vec<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    struct Grow<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for Grow<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a sequence")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<T>, A::Error> {
            let mut all = Vec::new();
            while let Some(element) = seq.next_element()? {
                all.push(element);
            }
            Ok(all)
        }
    }

    deserializer.deserialize_seq(Grow(PhantomData))
}
