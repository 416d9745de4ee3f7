//! Memory that recordings share one after another.

use std::{any::Any, fmt};

use super::packet::Packet;

/// Memory that recordings share one after another. What a recording comes to does not depend on what is
/// in it.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// The packets of containers that list them.
    pub(crate) packets: Vec<Packet>,
    /// What other containers list: pages, or frames.
    pub(crate) listed: Kept,
    /// Decoders, and what they share.
    pub(crate) decoders: Kept,
}

/// One value of each type that was asked for. Containers and codecs keep what they like in it, and this
/// floor need not know them.
#[derive(Default)]
pub(crate) struct Kept(Vec<Box<dyn Any + Send + Sync>>);

impl Kept {
    /// The value of this type: what was left in it, or its default.
    pub(crate) fn of<T: Any + Default + Send + Sync>(&mut self) -> &mut T {
        let found = self.0.iter().position(|value| value.is::<T>());
        let at = found.unwrap_or(self.0.len());
        if found.is_none() {
            self.0.push(Box::new(T::default()));
        }
        let value = self.0.get_mut(at).and_then(|value| value.downcast_mut());
        value.unwrap_or_else(|| unreachable!("a value of this type is at {at}"))
    }
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Kept").field(&self.0.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_has_one_value() {
        let mut kept = Kept::default();
        kept.of::<Vec<u8>>().push(7);
        kept.of::<Vec<u16>>().push(9);
        kept.of::<Vec<u8>>().push(8);
        assert_eq!(kept.of::<Vec<u8>>().as_slice(), [7, 8]);
        assert_eq!(kept.0.len(), 2);
    }
}
