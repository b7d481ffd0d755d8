//! Local work of plans, for every element type and reduction: a device's results must equal Rust's.

use typed_nccl::{
    Communicator, Device, F8E4M3, F8E5M2, Float, Numeric, Primitive, Result, World, bf16, f16, plan,
};

plan! {
    /// All reductions but averages.
    numbers<T: Numeric>(n: Ranks, len: usize) {
        in a, b, c: [T; len];
        inout x, y: [T; len];
        out copied, sum, product, least, most: [T; len];
        stream net;
        copied = a;
        sum = a + b + c;
        product = a * b;
        least = min(min(a, b), c);
        most = max(a, b);
        // In place, and of parts that begin anywhere.
        x[1..] += a[..len - 1];
        y = max(b, y);
        y[..1] *= b[len - 1..];
    }
}

plan! {
    /// Averages.
    averages<T: Float>(n: Ranks, len: usize) {
        in a, b, c: [T; len];
        out two, three: [T; len];
        stream net;
        two = avg(a, b);
        three = avg(a, b, c);
    }
}

/// Arithmetic of an element type in its accumulator.
trait Known: Primitive {
    type Wide: Copy;
    const SUM: fn(Self::Wide, Self::Wide) -> Self::Wide;
    const PRODUCT: fn(Self::Wide, Self::Wide) -> Self::Wide;
    const LEAST: fn(Self::Wide, Self::Wide) -> Self::Wide;
    const MOST: fn(Self::Wide, Self::Wide) -> Self::Wide;
    fn wide(self) -> Self::Wide;
    fn narrow(wide: Self::Wide) -> Self;
    /// Equal, or both NaN.
    fn same(self, other: Self) -> bool;
    /// Values that overflow, round, tie and are none.
    fn all() -> Vec<Self>;
}

macro_rules! integers {
    ($($type:ty),+) => {$(
        impl Known for $type {
            type Wide = Self;
            const SUM: fn(Self, Self) -> Self = Self::wrapping_add;
            const PRODUCT: fn(Self, Self) -> Self = Self::wrapping_mul;
            const LEAST: fn(Self, Self) -> Self = Ord::min;
            const MOST: fn(Self, Self) -> Self = Ord::max;

            fn wide(self) -> Self {
                self
            }

            fn narrow(wide: Self) -> Self {
                wide
            }

            fn same(self, other: Self) -> bool {
                self == other
            }

            fn all() -> Vec<Self> {
                let one: Self = 1;
                vec![0, 1, 2, 7, 100, Self::MAX, Self::MIN, Self::MAX / 2 + 1, one.wrapping_neg()]
            }
        }
    )+};
}

integers!(i8, u8, i32, u32, i64, u64);

macro_rules! floats {
    ($($type:ty as $wide:ty: $raise:expr, $lower:expr;)+) => {$(
        impl Known for $type {
            type Wide = $wide;
            const SUM: fn($wide, $wide) -> $wide = |a, b| a + b;
            const PRODUCT: fn($wide, $wide) -> $wide = |a, b| a * b;
            const LEAST: fn($wide, $wide) -> $wide = <$wide>::min;
            const MOST: fn($wide, $wide) -> $wide = <$wide>::max;

            fn wide(self) -> $wide {
                $raise(self)
            }

            fn narrow(wide: $wide) -> Self {
                $lower(wide)
            }

            fn same(self, other: Self) -> bool {
                let (one, other) = (self.wide(), other.wide());
                one == other || one.is_nan() && other.is_nan()
            }

            fn all() -> Vec<Self> {
                let values: [$wide; 12] = [
                    0.0, 1.0, -2.5, 0.1, 1.0 / 3.0, 240.0, -448.0, 57344.0, 65504.0, 1e-5,
                    <$wide>::INFINITY, <$wide>::NAN,
                ];
                values.map(Self::narrow).into()
            }
        }
    )+};
}

floats! {
    f32 as f32: |x| x, |x| x;
    f64 as f64: |x| x, |x| x;
    f16 as f32: Self::to_f32, Self::from_f32;
    bf16 as f32: Self::to_f32, Self::from_f32;
    F8E4M3 as f32: |x: Self| x.to_f32(), Self::from_f32;
    F8E5M2 as f32: |x: Self| x.to_f32(), Self::from_f32;
}

/// Each triple of values.
fn triples<T: Known>() -> [Vec<T>; 3] {
    let all = T::all();
    let len = all.len();
    let of = |step: usize| (0..len * len * len).map(|at| all[at / step % len]).collect();
    [of(1), of(len), of(len * len)]
}

#[track_caller]
fn equal<T: Known>(found: &[T], what: &str, expected: impl Fn(usize) -> T) {
    for (at, found) in found.iter().enumerate() {
        let expected = expected(at);
        assert!(
            found.same(expected),
            "{what} of {:?}: element {at} is {found:?}, not {expected:?}",
            T::DTYPE
        );
    }
}

fn of_numbers<T: Known + Numeric, W: World>(comm: &mut Communicator<W>) -> Result<()> {
    let [a, b, c] = triples::<T>();
    let len = a.len();
    let mut bound = numbers::bind::<T, _>(comm, numbers::Params { len })?;
    let device = comm.device().clone();
    let from = |values: &[T]| device.from_slice(values);
    let mut outs = (0..5).map(|_| device.zeros(len)).collect::<Result<Vec<_>>>()?;
    let [copied, sum, product, least, most] = &mut outs[..] else { unreachable!() };
    let (mut x, mut y) = (from(&c)?, from(&a)?);
    let buffers = numbers::Buffers {
        a: &from(&a)?,
        b: &from(&b)?,
        c: &from(&c)?,
        x: &mut x,
        y: &mut y,
        copied,
        sum,
        product,
        least,
        most,
    };
    bound.run(comm, buffers)?;
    let (x, y) = (x.to_vec()?, y.to_vec()?);
    let outs = outs.iter().map(|out| out.to_vec()).collect::<Result<Vec<_>>>()?;
    let wide = |list: &[T], at: usize| list[at].wide();
    let two = |by: fn(T::Wide, T::Wide) -> T::Wide, at| T::narrow(by(wide(&a, at), wide(&b, at)));
    let three = |by: fn(T::Wide, T::Wide) -> T::Wide, at| {
        T::narrow(by(by(wide(&a, at), wide(&b, at)), wide(&c, at)))
    };
    equal(&outs[0], "the copy", |at| a[at]);
    equal(&outs[1], "the sum", |at| three(T::SUM, at));
    equal(&outs[2], "the product", |at| two(T::PRODUCT, at));
    equal(&outs[3], "the least", |at| three(T::LEAST, at));
    equal(&outs[4], "the most", |at| two(T::MOST, at));
    equal(&x[..1], "the rest", |at| c[at]);
    equal(&x[1..], "the update", |at| T::narrow(T::SUM(wide(&c, at + 1), wide(&a, at))));
    let most = |at| T::narrow(T::MOST(wide(&b, at), wide(&a, at)));
    equal(&y[1..], "the most in place", |at| most(at + 1));
    equal(&y[..1], "the last step", |at| T::narrow(T::PRODUCT(most(at).wide(), wide(&b, len - 1))));
    Ok(())
}

fn of_floats<T: Known + Float, W: World>(
    comm: &mut Communicator<W>,
    divided: fn(T::Wide, usize) -> T::Wide,
) -> Result<()> {
    of_numbers::<T, W>(comm)?;
    let [a, b, c] = triples::<T>();
    let len = a.len();
    let mut bound = averages::bind::<T, _>(comm, averages::Params { len })?;
    let device = comm.device().clone();
    let from = |values: &[T]| device.from_slice(values);
    let (mut two, mut three) = (device.zeros(len)?, device.zeros(len)?);
    let (a_in, b_in, c_in) = (from(&a)?, from(&b)?, from(&c)?);
    let buffers =
        averages::Buffers { a: &a_in, b: &b_in, c: &c_in, two: &mut two, three: &mut three };
    bound.run(comm, buffers)?;
    let sum = |at: usize| T::SUM(a[at].wide(), b[at].wide());
    equal(&two.to_vec()?, "the average", |at| T::narrow(divided(sum(at), 2)));
    equal(&three.to_vec()?, "the average of three", |at| {
        T::narrow(divided(T::SUM(sum(at), c[at].wide()), 3))
    });
    Ok(())
}

/// On one rank.
pub(crate) fn every_type<W: World>(comm: &mut Communicator<W>) -> Result<()> {
    of_numbers::<i8, W>(comm)?;
    of_numbers::<u8, W>(comm)?;
    of_numbers::<i32, W>(comm)?;
    of_numbers::<u32, W>(comm)?;
    of_numbers::<i64, W>(comm)?;
    of_numbers::<u64, W>(comm)?;
    let single = |x: f32, by: usize| x / by as f32;
    of_floats::<f32, W>(comm, single)?;
    of_floats::<f64, W>(comm, |x, by| x / by as f64)?;
    of_floats::<f16, W>(comm, single)?;
    of_floats::<bf16, W>(comm, single)?;
    of_floats::<F8E4M3, W>(comm, single)?;
    of_floats::<F8E5M2, W>(comm, single)
}
