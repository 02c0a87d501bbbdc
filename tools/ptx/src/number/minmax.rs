//! Minimum and maximum with PTX's rules: −0 is less than +0, and a NaN loses or wins as asked.

macro_rules! minmax {
    ($module:ident, $float:ty) => {
        /// Minimum and maximum of this type.
        pub(crate) mod $module {
            /// The lesser; of a NaN and a number the number, or the NaN where `keep_nan`.
            #[inline(always)]
            pub(crate) fn min(a: $float, b: $float, keep_nan: bool) -> $float {
                let equal = <$float>::from_bits(a.to_bits() | b.to_bits());
                let least = if a == b {
                    equal
                } else if a < b {
                    a
                } else {
                    b
                };
                nans(a, b, least, keep_nan)
            }

            /// The greater; of a NaN and a number the number, or the NaN where `keep_nan`.
            #[inline(always)]
            pub(crate) fn max(a: $float, b: $float, keep_nan: bool) -> $float {
                let equal = <$float>::from_bits(a.to_bits() & b.to_bits());
                let greatest = if a == b {
                    equal
                } else if a > b {
                    a
                } else {
                    b
                };
                nans(a, b, greatest, keep_nan)
            }

            #[inline(always)]
            fn nans(a: $float, b: $float, result: $float, keep_nan: bool) -> $float {
                let (if_a, if_b) = if keep_nan { (a, b) } else { (b, a) };
                if a.is_nan() {
                    if_a
                } else if b.is_nan() {
                    if_b
                } else {
                    result
                }
            }
        }
    };
}

minmax!(single, f32);
minmax!(double, f64);

#[cfg(test)]
mod tests {
    use super::single::{max, min};

    #[test]
    fn zeros_are_ordered_by_their_sign() {
        assert!(min(0.0, -0.0, false).is_sign_negative());
        assert!(min(-0.0, 0.0, false).is_sign_negative());
        assert!(max(0.0, -0.0, false).is_sign_positive());
        assert!(max(-0.0, 0.0, false).is_sign_positive());
    }

    #[test]
    fn a_nan_is_dropped_unless_it_is_to_be_kept() {
        assert_eq!(min(f32::NAN, 1.0, false), 1.0);
        assert_eq!(max(1.0, f32::NAN, false), 1.0);
        assert!(min(f32::NAN, 1.0, true).is_nan());
        assert!(max(1.0, f32::NAN, true).is_nan());
        assert!(max(f32::NAN, f32::NAN, false).is_nan());
    }
}
