//! Complex numbers. Their sums and means are those of their real and imaginary parts.

use std::ops::{Add, Mul, Sub};

/// A complex number as it lies in memory: the layout of `num_complex::Complex`, of C's `_Complex`
/// and of Python's libraries.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Complex<F> {
    re: F,
    im: F,
}

impl<F: Add<Output = F>> Add for Complex<F> {
    type Output = Self;

    #[inline]
    fn add(self, by: Self) -> Self {
        Self { re: self.re + by.re, im: self.im + by.im }
    }
}

impl<F: Copy + Add<Output = F> + Sub<Output = F> + Mul<Output = F>> Mul for Complex<F> {
    type Output = Self;

    #[inline]
    fn mul(self, by: Self) -> Self {
        Self { re: self.re * by.re - self.im * by.im, im: self.re * by.im + self.im * by.re }
    }
}

#[cfg(feature = "num-complex")]
mod of_num_complex {
    use crate::DType;
    use crate::element::{Element, sealed};

    macro_rules! elements {
        ($($part:ident is $dtype:ident),+) => { $(
            impl sealed::Sealed for num_complex::Complex<$part> {}

            // SAFETY: a `repr(C)` struct of two floats has no padding and takes every bit pattern;
            // `DType::size` and `align` are those of this layout.
            #[diagnostic::do_not_recommend]
            unsafe impl Element for num_complex::Complex<$part> {
                const DTYPE: DType = DType::$dtype;
            }

            const _: () = {
                assert!(size_of::<num_complex::Complex<$part>>() == DType::$dtype.size());
                assert!(align_of::<num_complex::Complex<$part>>() == DType::$dtype.align());
            };
        )+ };
    }

    elements!(f32 is ComplexF32, f64 is ComplexF64);
}
