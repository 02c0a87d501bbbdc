/// Mirrors an image in place, left to right.
pub(super) fn flip(pixels: &mut [u8], width: usize) {
    for row in pixels.chunks_exact_mut(width) {
        row.reverse();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flip_mirrors_every_row() {
        let mut pixels = [1, 2, 3, 4, 5, 6];
        flip(&mut pixels, 3);
        assert_eq!(pixels, [3, 2, 1, 6, 5, 4]);
    }
}
