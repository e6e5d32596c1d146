//! Pages bounded in bytes: the sizes are read first, so that what is read afterwards fits into memory, whoever wrote it.

/// The key of the last row, of these with their sizes, that fits together with all rows before it. The first one always
/// fits.
pub fn within<K: Clone>(bytes_max: u64, sizes: &[(K, i64)]) -> Option<K> {
    let mut bytes = 0;
    let fits = |(_, size): &&(K, i64)| {
        let is_first = bytes == 0;
        bytes += size.cast_unsigned().max(1);
        is_first || bytes <= bytes_max
    };
    sizes.iter().take_while(fits).last().map(|(key, _)| key.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_ends_before_the_row_that_does_not_fit() {
        assert_eq!(within::<i64>(10, &[]), None);
        assert_eq!(within(10, &[(1, 4), (2, 6), (3, 1)]), Some(2));
        assert_eq!(within(10, &[(1, 11), (2, 0)]), Some(1), "the first one always fits, alone");
        assert_eq!(within(10, &[(1, 0), (2, 0), (3, 10)]), Some(2), "a row without content counts as one byte");
    }
}
