//! The element types, by NCCL's numbers, and their accumulators.

use std::ops::Range;

use half::{bf16, f16};

use super::memory::Op;

/// An element type.
#[derive(Clone, Copy)]
pub(super) struct Element(pub(super) u32);

#[derive(Clone, Copy)]
enum Value {
    Integer(i128),
    Single(f32),
    Double(f64),
}

/// The accumulators of a line's elements.
pub(super) struct Sum(Vec<Value>);

impl Sum {
    /// The sum of their squares.
    pub(super) fn squares(&self) -> f64 {
        self.0.iter().map(|value| value.double() * value.double()).sum()
    }
}

impl Value {
    fn double(self) -> f64 {
        match self {
            Self::Integer(x) => x as f64,
            Self::Single(x) => x.into(),
            Self::Double(x) => x,
        }
    }
}

impl Element {
    pub(super) fn size(self) -> usize {
        [1, 1, 4, 4, 8, 8, 2, 4, 8, 2][self.0 as usize]
    }

    fn read(self, bits: u64) -> Value {
        match self.0 {
            0 => Value::Integer((bits as i8).into()),
            1 => Value::Integer((bits as u8).into()),
            2 => Value::Integer((bits as i32).into()),
            3 => Value::Integer((bits as u32).into()),
            4 => Value::Integer(bits.cast_signed().into()),
            5 => Value::Integer(bits.into()),
            6 => Value::Single(f16::from_bits(bits as u16).to_f32()),
            7 => Value::Single(f32::from_bits(bits as u32)),
            8 => Value::Double(f64::from_bits(bits)),
            _ => Value::Single(bf16::from_bits(bits as u16).to_f32()),
        }
    }

    /// Its bits; an integer's low ones.
    fn write(self, value: Value) -> u64 {
        let bits = match (self.0, value) {
            (_, Value::Integer(x)) => x as u64,
            (6, Value::Single(x)) => f16::from_f32(x).to_bits().into(),
            (9, Value::Single(x)) => bf16::from_f32(x).to_bits().into(),
            (_, Value::Single(x)) => x.to_bits().into(),
            (_, Value::Double(x)) => x.to_bits(),
        };
        bits & (u64::MAX >> (64 - 8 * self.size()))
    }

    pub(super) fn begin(self, line: u64) -> Sum {
        let lane = |at| self.read(line >> (8 * self.size() * at));
        Sum((0..8 / self.size()).map(lane).collect())
    }

    pub(super) fn add(self, sum: &mut Sum, line: u64, reduction: u32) {
        for (one, other) in sum.0.iter_mut().zip(self.begin(line).0) {
            *one = match (*one, other) {
                (Value::Integer(a), Value::Integer(b)) => {
                    let all = match reduction {
                        0 => a.wrapping_add(b),
                        1 => a.wrapping_mul(b),
                        2 => a.min(b),
                        _ => a.max(b),
                    };
                    // It wraps.
                    self.read(self.write(Value::Integer(all)))
                }
                (Value::Single(a), Value::Single(b)) => Value::Single(match reduction {
                    0 => a + b,
                    1 => a * b,
                    2 => a.min(b),
                    _ => a.max(b),
                }),
                (a, b) => Value::Double(match reduction {
                    0 => a.double() + b.double(),
                    1 => a.double() * b.double(),
                    2 => a.double().min(b.double()),
                    _ => a.double().max(b.double()),
                }),
            };
        }
    }

    pub(super) fn end(self, sum: &Sum, divisor: u32) -> u64 {
        let divided = |value: &Value| match *value {
            Value::Single(x) if divisor != 1 => Value::Single(x / divisor as f32),
            Value::Double(x) if divisor != 1 => Value::Double(x / f64::from(divisor)),
            value => value,
        };
        let lanes = sum.0.iter().map(|value| self.write(divided(value))).enumerate();
        lanes.fold(0, |line, (at, bits)| line | bits << (8 * self.size() * at))
    }

    /// Multiplies the elements of a row that are stored in these lines by a number and by their
    /// weights.
    pub(super) fn scale(self, row: &Op, lines: Range<usize>, scale: f64, weight: u64) {
        let weights = row.reading(weight);
        for line in lines {
            let (sums, weights) =
                (self.begin(row.stored(line * 8)), self.begin(weights.load(line * 8)));
            let each = sums.0.iter().zip(weights.0);
            let scaled = each.map(|(x, weight)| {
                let result = x.double() * scale * weight.double();
                match x {
                    Value::Single(_) => Value::Single(result as f32),
                    _ => Value::Double(result),
                }
            });
            row.store(line * 8, self.end(&Sum(scaled.collect()), 1));
        }
    }
}
