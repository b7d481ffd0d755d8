//! The 16- and 8-bit floats from their definitions.
//!
//! The bits of a positive float increase with its value, so rounding is a search in the list of all
//! values.

use std::sync::LazyLock;

/// A float of up to 16 bits.
pub(crate) struct Format {
    sign: u16,
    /// The code past the largest finite one: infinity, or NaN where there are no infinities.
    top: u16,
    infinite: bool,
    /// Whether overflow yields the largest finite value.
    saturates: bool,
    /// The values of the codes up to `top`, which counts as the finite value it would represent.
    values: Vec<f64>,
}

pub(crate) static F16: LazyLock<Format> = LazyLock::new(|| Format::new(5, 10, true, false));
pub(crate) static BF16: LazyLock<Format> = LazyLock::new(|| Format::new(8, 7, true, false));
pub(crate) static E5M2: LazyLock<Format> = LazyLock::new(|| Format::new(5, 2, true, true));
pub(crate) static E4M3: LazyLock<Format> = LazyLock::new(|| Format::new(4, 3, false, true));

impl Format {
    fn new(exponent_bits: u32, mantissa_bits: u32, infinite: bool, saturates: bool) -> Self {
        let sign = 1_u16 << (exponent_bits + mantissa_bits);
        let one = 1_u16 << mantissa_bits;
        let top = if infinite { sign - one } else { sign - 1 };
        let bias = (1 << (exponent_bits - 1)) - 1;
        let value = |code: u16| {
            let (exponent, mantissa) = (i32::from(code / one), code % one);
            let significand = if exponent == 0 { mantissa } else { one + mantissa };
            f64::from(significand) * 2_f64.powi(exponent.max(1) - bias - mantissa_bits as i32)
        };
        Self { sign, top, infinite, saturates, values: (0..=top).map(value).collect() }
    }

    pub(crate) fn decode(&self, bits: u16) -> f32 {
        let code = bits & (self.sign - 1);
        let magnitude = match code {
            _ if code < self.top => self.values[usize::from(code)] as f32,
            _ if code == self.top && self.infinite => f32::INFINITY,
            _ => f32::NAN,
        };
        if bits & self.sign == 0 { magnitude } else { -magnitude }
    }

    /// The nearest value; of two, the one with the even code.
    pub(crate) fn round(&self, x: f32) -> u16 {
        let sign = if x.is_sign_negative() { self.sign } else { 0 };
        if x.is_nan() {
            return sign | (self.sign - 1);
        }
        let exact = f64::from(x.abs());
        let above = self.values.partition_point(|&value| value < exact);
        let index = match above {
            0 => 0,
            _ if above == self.values.len() => above - 1,
            _ => {
                let (down, up) = (exact - self.values[above - 1], self.values[above] - exact);
                let even = above - above % 2;
                if down == up { even } else { above - usize::from(down < up) }
            }
        };
        let code = index as u16;
        sign | if code == self.top && self.saturates { code - 1 } else { code }
    }
}

#[test]
fn formats_are_the_published_ones() {
    let largest = |format: &Format| format.decode(format.top - 1);
    assert_eq!(largest(&F16), 65504.0);
    assert_eq!(largest(&BF16), 3.389_531_4e38);
    assert_eq!(largest(&E4M3), 448.0);
    assert_eq!(largest(&E5M2), 57344.0);
    assert_eq!(F16.decode(1), 2_f32.powi(-24));
    assert_eq!(E4M3.decode(1), 2_f32.powi(-9));
    assert_eq!(E5M2.decode(1), 2_f32.powi(-16));
    assert_eq!((F16.decode(0xfc00), E5M2.decode(0x7c)), (f32::NEG_INFINITY, f32::INFINITY));
    assert!(E4M3.decode(0x7f).is_nan() && E5M2.decode(0x7d).is_nan());
}

#[test]
fn rounding_is_to_nearest_and_ties_to_even() {
    assert_eq!(E4M3.round(17.0), E4M3.round(16.0));
    assert_eq!(E4M3.round(19.0), E4M3.round(20.0));
    assert_eq!(E4M3.round(-1e9), E4M3.round(-448.0));
    assert_eq!(E5M2.round(f32::INFINITY), E5M2.round(57344.0));
    assert_eq!((F16.round(65519.9), F16.round(65520.0)), (0x7bff, 0x7c00));
    assert_eq!(F16.round(-0.0), 0x8000);
    for code in (0..=u16::MAX).filter(|&code| !BF16.decode(code).is_nan()) {
        assert_eq!(BF16.round(BF16.decode(code)), code);
    }
}
