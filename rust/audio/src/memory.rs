//! Memory whose size a recording decides. It is asked for so that a refusal is an error: a plain
//! `Vec` would end the process.

use super::error::Reason;

/// Makes room for `n` more items.
pub(super) fn reserve<T>(vec: &mut Vec<T>, n: usize) -> Result<(), Reason> {
    vec.try_reserve(n).map_err(|_| out_of_memory::<T>(vec.len().saturating_add(n)))
}

/// Adds an item.
pub(super) fn push<T>(vec: &mut Vec<T>, item: T) -> Result<(), Reason> {
    if vec.len() == vec.capacity() {
        reserve(vec, 1)?;
    }
    vec.push(item);
    Ok(())
}

/// Adds bytes.
pub(super) fn extend(vec: &mut Vec<u8>, bytes: &[u8]) -> Result<(), Reason> {
    reserve(vec, bytes.len())?;
    vec.extend_from_slice(bytes);
    Ok(())
}

/// A copy of these items.
pub(super) fn copy<T: Clone>(items: &[T]) -> Result<Vec<T>, Reason> {
    let mut vec = Vec::new();
    vec.try_reserve_exact(items.len()).map_err(|_| out_of_memory::<T>(items.len()))?;
    vec.extend_from_slice(items);
    Ok(vec)
}

/// `n` zeros and nothing else. The old items are dropped first, so that both are never in memory.
pub(super) fn zeros(vec: &mut Vec<f32>, n: usize) -> Result<(), Reason> {
    vec.clear();
    if vec.capacity() < n {
        *vec = Vec::new();
        vec.try_reserve_exact(n).map_err(|_| out_of_memory::<f32>(n))?;
    }
    vec.resize(n, 0.0);
    Ok(())
}

fn out_of_memory<T>(n: usize) -> Reason {
    Reason::OutOfMemory { bytes: n.saturating_mul(size_of::<T>()) as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_had_is_an_error() {
        let most = isize::MAX as usize;
        let refused = |bytes: usize| Err(Reason::OutOfMemory { bytes: bytes as u64 });
        assert_eq!(zeros(&mut Vec::new(), most / 4), refused(most / 4 * 4));
        assert_eq!(reserve(&mut vec![0_u8; 2], most), refused(most + 2));
        let mut vec = vec![1.0; 3];
        assert_eq!(zeros(&mut vec, 2), Ok(()));
        assert_eq!(vec, [0.0; 2]);
        assert_eq!((push(&mut vec, 4.0), vec.as_slice()), (Ok(()), &[0.0, 0.0, 4.0][..]));
        let mut bytes = copy(b"ab").expect("two bytes");
        assert_eq!((extend(&mut bytes, b"c"), bytes.as_slice()), (Ok(()), &b"abc"[..]));
    }
}
