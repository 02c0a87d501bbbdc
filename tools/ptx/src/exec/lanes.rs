//! Values of all lanes of a warp, and operations on them as plain loops that compile to vector instructions.

/// Lanes of a warp.
pub(crate) const LANES: usize = 32;

/// One value a lane.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(C, align(64))]
pub(crate) struct Lanes<T>(pub(crate) [T; LANES]);

impl<T: Copy> Lanes<T> {
    /// The same value in all lanes.
    #[inline(always)]
    pub(crate) fn all(value: T) -> Lanes<T> {
        Lanes([value; LANES])
    }

    /// A function of the lane's number. Unlike `std::array::from_fn` this becomes part of a `vectorised!` caller, and with
    /// one call of the function so does that.
    #[inline(always)]
    pub(crate) fn by_lane(mut value: impl FnMut(usize) -> T) -> Lanes<T>
    where
        T: Default,
    {
        let mut out = [T::default(); LANES];
        for (lane, out) in out.iter_mut().enumerate() {
            *out = value(lane);
        }
        Lanes(out)
    }
}

/// A number that registers of some size hold.
pub(crate) trait Scalar: Copy {
    /// `u32` or `u64`.
    type Slot: Copy + Default;
    /// The number in a register.
    fn of(slot: Self::Slot) -> Self;
    /// A register that holds the number; narrow ones are zero-extended.
    fn slot(self) -> Self::Slot;
}

macro_rules! scalars {
    ($($scalar:ty, $slot:ty, $of:expr, $to:expr;)*) => {$(
        impl Scalar for $scalar {
            type Slot = $slot;
            #[inline(always)]
            fn of(slot: $slot) -> Self {
                let of: fn($slot) -> $scalar = $of;
                of(slot)
            }
            #[inline(always)]
            fn slot(self) -> $slot {
                let to: fn($scalar) -> $slot = $to;
                to(self)
            }
        }
    )*};
}

scalars! {
    u16, u32, |x| x as u16, u32::from;
    i16, u32, |x| x as i16, |x| u32::from(x as u16);
    u32, u32, |x| x, |x| x;
    i32, u32, |x| x as i32, |x| x as u32;
    u64, u64, |x| x, |x| x;
    i64, u64, |x| x as i64, |x| x as u64;
    f32, u32, f32::from_bits, f32::to_bits;
    f64, u64, f64::from_bits, f64::to_bits;
}

/// f of every lane.
#[inline(always)]
pub(crate) fn map1<S: Scalar>(a: &Lanes<S::Slot>, f: impl Fn(S) -> S) -> Lanes<S::Slot> {
    let mut out = Lanes::all(S::Slot::default());
    for lane in 0..LANES {
        out.0[lane] = f(S::of(a.0[lane])).slot();
    }
    out
}

/// f of every pair of lanes.
#[inline(always)]
pub(crate) fn map2<S: Scalar>(
    a: &Lanes<S::Slot>,
    b: &Lanes<S::Slot>,
    f: impl Fn(S, S) -> S,
) -> Lanes<S::Slot> {
    let mut out = Lanes::all(S::Slot::default());
    for lane in 0..LANES {
        out.0[lane] = f(S::of(a.0[lane]), S::of(b.0[lane])).slot();
    }
    out
}

/// f of every three lanes.
#[inline(always)]
pub(crate) fn map3<S: Scalar>(
    a: &Lanes<S::Slot>,
    b: &Lanes<S::Slot>,
    c: &Lanes<S::Slot>,
    f: impl Fn(S, S, S) -> S,
) -> Lanes<S::Slot> {
    let mut out = Lanes::all(S::Slot::default());
    for lane in 0..LANES {
        out.0[lane] = f(S::of(a.0[lane]), S::of(b.0[lane]), S::of(c.0[lane])).slot();
    }
    out
}

/// The lanes where f is true.
#[inline(always)]
pub(crate) fn test2<S: Scalar>(a: &Lanes<S::Slot>, b: &Lanes<S::Slot>, f: impl Fn(S, S) -> bool) -> u32 {
    let mut mask = 0;
    for lane in 0..LANES {
        mask |= u32::from(f(S::of(a.0[lane]), S::of(b.0[lane]))) << lane;
    }
    mask
}

/// The numbers of the lanes in a mask, lowest first.
#[inline(always)]
pub(crate) fn lanes_of(mut mask: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lane = mask.trailing_zeros() as usize;
        if mask == 0 {
            return None;
        }
        mask &= mask - 1;
        Some(lane)
    })
}

/// Compiles a function twice: for AVX2 with FMA, which the launch found or not, and for any processor.
macro_rules! vectorised {
    ($(#[$meta:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block) => {
        $(#[$meta])*
        #[allow(clippy::too_many_arguments)]
        $vis fn $name($($arg: $ty),*) $(-> $ret)? {
            #[inline(always)]
            #[allow(clippy::too_many_arguments)]
            fn portable($($arg: $ty),*) $(-> $ret)? $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt")]
                #[allow(clippy::too_many_arguments)]
                fn wide($($arg: $ty),*) $(-> $ret)? {
                    portable($($arg),*)
                }
                if $crate::exec::lanes::wide_vectors() {
                    // SAFETY: `wide_vectors` has just said that the processor has these features.
                    return unsafe { wide($($arg),*) };
                }
            }
            portable($($arg),*)
        }
    };
}
pub(crate) use vectorised;

/// Whether the processor has what `vectorised!` compiles for.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn wide_vectors() -> bool {
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("lzcnt")
        && is_x86_feature_detected!("popcnt")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_numbers_are_kept_zero_extended() {
        assert_eq!((-1i16).slot(), 0xffff);
        assert_eq!(i16::of(0xffff), -1);
    }

    #[test]
    fn lanes_are_listed_lowest_first() {
        assert_eq!(lanes_of(0x8000_0005).collect::<Vec<_>>(), [0, 2, 31]);
    }
}
