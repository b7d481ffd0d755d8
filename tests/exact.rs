//! Exact sums and means: correctly rounded by an oracle that shares nothing with them, and the same
//! bits however contributions are spread.

mod values;

use float8::F8E5M2;
use half::{bf16, f16};
use typed_nccl::{Avg, DynBuffer, DynReduceOp, Error, Host, Result, Sum};

use crate::ranks::spmd;
use values::{Real, contribution};

/// The sign of the exact sum of these, by Shewchuk's growing expansion.
fn sign(terms: impl Iterator<Item = f64>) -> f64 {
    let mut parts: Vec<f64> = Vec::new();
    for mut x in terms {
        let mut kept = Vec::new();
        for &part in &parts {
            let (large, small) = if x.abs() < part.abs() { (part, x) } else { (x, part) };
            let sum = large + small;
            let error = small - (sum - large);
            if error != 0.0 {
                kept.push(error);
            }
            x = sum;
        }
        kept.push(x);
        parts = kept;
    }
    let largest = parts.into_iter().rev().find(|part| *part != 0.0);
    largest.map_or(0.0, f64::signum)
}

/// Fails unless `found` is the number nearest to the sum of `of`, divided by `by`.
fn nearest<T: Real>(found: T, of: &[T], by: usize) {
    let sum = || of.iter().map(|x| 2.0 * x.wide());
    // The number next to `found` away from zero or, from zero, the least.
    let (bits, top) = (found.bits(), 1 << (8 * size_of::<T>() - 1));
    let magnitude = bits & (top - 1);
    let up = T::of(bits + 1).wide();
    let down = if magnitude == 0 { -up } else { T::of(bits - 1).wide() };
    for other in [up, down] {
        // Twice the sum less the two numbers whose middle is a tie.
        let halves = (0..by).flat_map(|_| [-found.wide(), -other]);
        let side = sign(sum().chain(halves));
        let towards = (other - found.wide()).signum();
        let is_even = bits & 1 == 0;
        assert!(
            side == -towards || side == 0.0 && is_even,
            "{found:?} is not the nearest to the sum of {of:?} by {by}"
        );
    }
}

/// The most ranks.
const MOST: usize = 16;
const LEN: usize = 240;

/// On every number of ranks, in several orders: there is one nearest number, which is the result on
/// every path.
fn spread<T: Real>() -> Result<()> {
    let zero = T::of(1 << (8 * size_of::<T>() - 1));
    let all = |nth: usize| -> Vec<T> { (0..LEN).map(|at| contribution(nth, at)).collect() };
    for n in 1..=MOST {
        spmd::<Host>(n, |place| {
            let comm = place.init()?;
            for (few, turn) in [(n, 0), (n, 3), (n.div_ceil(2), 1)] {
                // `few` contributions on n ranks, turned by some places. The others add -0.
                let nth = (comm.rank().index() * if n % 3 == 0 { 1 } else { 3 } + turn) % n;
                let own = if nth < few { all(nth) } else { vec![zero; LEN] };
                let x = comm.device().from_slice(&own)?;
                let mut y = comm.device().zeros::<T>(LEN)?;
                comm.all_reduce(&x, &mut y, Sum.exact())?;
                for (at, found) in y.to_vec()?.into_iter().enumerate() {
                    let of: Vec<T> = (0..few).map(|nth| contribution(nth, at)).collect();
                    nearest(found, &of, 1);
                }
                let mut means = comm.device().zeros::<T>(LEN)?;
                comm.all_reduce(&x, &mut means, Avg.exact())?;
                for (at, found) in means.to_vec()?.into_iter().enumerate() {
                    let of: Vec<T> = (0..few).map(|nth| contribution(nth, at)).collect();
                    nearest(found, &of, n);
                }
                let bits = |x: Vec<T>| x.into_iter().map(Real::bits).collect::<Vec<_>>();
                let sums = bits(y.to_vec()?);
                // The other paths give the same bits.
                if let Some(at_root) = comm.reduce(&x, Sum.exact(), n - 1)? {
                    assert_eq!(bits(at_root.to_vec()?), sums);
                }
                let mut padded = own.clone();
                padded.resize(LEN.next_multiple_of(n), zero);
                let padded = comm.device().from_slice(&padded)?;
                let part = padded.len() / n;
                let mut scattered = comm.device().zeros::<T>(part)?;
                comm.reduce_scatter(&padded, &mut scattered, Sum.exact())?;
                let start = comm.rank().index() * part;
                for (at, found) in bits(scattered.to_vec()?).into_iter().enumerate() {
                    if let Some(sum) = sums.get(start + at) {
                        assert_eq!(found, *sum);
                    }
                }
                let mut x = x;
                comm.all_reduce_in_place(&mut x, Sum.exact())?;
                assert_eq!(bits(x.to_vec()?), sums);
            }
            comm.finish()
        })?;
    }
    Ok(())
}

#[test]
fn exact_sums_of_f32() -> Result<()> {
    spread::<f32>()
}

#[test]
fn exact_sums_of_f64() -> Result<()> {
    spread::<f64>()
}

#[test]
fn exact_sums_of_f16() -> Result<()> {
    spread::<f16>()
}

#[test]
fn exact_sums_of_bf16() -> Result<()> {
    spread::<bf16>()
}

#[test]
fn exact_sums_of_8_bits() -> Result<()> {
    spread::<F8E5M2>()
}

/// Sums one list of contributions, each on a rank, in both orders.
fn sum<T: Real>(of: &[f64], near: fn(f64) -> T, expected: f64) -> Result<()> {
    for reversed in [false, true] {
        spmd::<Host>(of.len(), |place| {
            let comm = place.init()?;
            let rank = comm.rank().index();
            let own = of[if reversed { of.len() - 1 - rank } else { rank }];
            let mut x = comm.device().from_slice(&[near(own)])?;
            comm.all_reduce_in_place(&mut x, Sum.exact())?;
            let (found, needed) = (x.to_vec()?[0], near(expected));
            let same = found.bits() == needed.bits() || found.wide().is_nan() && expected.is_nan();
            assert!(same, "{of:?} makes {found:?} instead of {needed:?}");
            comm.finish()
        })?;
    }
    Ok(())
}

#[test]
fn exact_sums_of_adversarial_values() -> Result<()> {
    let (inf, nan, least, most) = (f64::INFINITY, f64::NAN, 5e-324, f64::MAX);
    for (of, expected) in [
        (&[1e30, 1.0, -1e30][..], 1.0),
        (&[1e30, 1e-300, 1.0, -1e30, -1.0], 1e-300),
        (&[1.0, 1e100, 1.0, -1e100, 1.0], 3.0),
        (&[most, most, -most], most),
        (&[most, most, -most, -most, least], least),
        (&[most, most], inf),
        (&[-most, -most], -inf),
        // Half a last place: a tie goes to even, and anything more beyond.
        (&[1.0, 2_f64.powi(-53)], 1.0),
        (&[1.0, 2_f64.powi(-53), least], 1.0 + f64::EPSILON),
        (&[1.0 + f64::EPSILON, 2_f64.powi(-53)], 1.0 + 2.0 * f64::EPSILON),
        (&[least, least, least], 3.0 * least),
        (&[2_f64.powi(-1022), -least], 2_f64.powi(-1022) - least),
        (&[inf, 1.0], inf),
        (&[inf, -most, inf], inf),
        (&[inf, -inf, 1.0], nan),
        (&[nan, 1.0], nan),
        (&[1.0, -1.0], 0.0),
        (&[-0.0, -0.0], -0.0),
        (&[-0.0, 0.0], 0.0),
        (&[most, -most, -0.0], 0.0),
    ] {
        sum(of, |x| x, expected)?;
    }
    let half = 2_f64.powi(-24);
    for (of, expected) in [
        (&[1e30, 1.0, -1e30][..], 1.0),
        // An f64 would round to a tie, and the tie to even.
        (&[1.0, half, 2_f64.powi(-80)], 1.0 + 2.0 * half),
        (&[1.0, half, -2_f64.powi(-80)], 1.0),
        (&[-1.0, -half, -2_f64.powi(-140)], -1.0 - 2.0 * half),
        (&[3e38, 3e38, -3e38], 3e38),
        (&[3e38, 3e38], inf),
        (&[2_f64.powi(-149), 2_f64.powi(-149)], 2_f64.powi(-148)),
    ] {
        sum(of, |x| x as f32, expected)?;
    }
    sum(&[60000.0, 60000.0, -60000.0], f16::from_f64, 60000.0)?;
    sum(&[60000.0, 60000.0], f16::from_f64, inf)?;
    sum(&[256.0, 1.0, 2_f64.powi(-100)], bf16::from_f64, 258.0)
}

#[test]
fn exact_and_plain_sums_are_a_mismatch() -> Result<()> {
    spmd::<Host>(2, |place| {
        let comm = place.init()?;
        let mut x = comm.device().zeros::<f32>(4)?;
        let op = [DynReduceOp::ExactAdd, DynReduceOp::Add][comm.rank().index()];
        let outcome = comm.all_reduce_in_place(&mut x, op).and_then(|()| x.to_vec().map(drop));
        let Err(Error::Mismatch(mismatch)) = outcome else { panic!("{outcome:?}") };
        let text = mismatch.to_string();
        assert!(text.contains("Sum.exact()") && text.contains(", Sum"), "{text}");
        Ok(())
    })
}

#[test]
fn exact_sums_of_integers_by_value_are_refused() -> Result<()> {
    spmd::<Host>(2, |place| {
        let comm = place.init()?;
        let mut x = DynBuffer::zeros(comm.device(), typed_nccl::DType::I32, 4)?;
        let error = comm.all_reduce_in_place(&mut x, Sum.exact()).expect_err("integers");
        let text = error.to_string();
        assert!(text.contains("`Sum.exact()` cannot reduce i32"), "{text}");
        comm.finish()
    })
}

#[test]
fn sums_of_halves_in_f32_by_name() -> Result<()> {
    spmd::<Host>(3, |place| {
        let comm = place.init()?;
        // In bf16 each addition of 1 would be lost.
        let own = if comm.rank().index() == 0 { 256.0 } else { 1.0 };
        let mut x = comm.device().from_slice(&[bf16::from_f32(own)])?;
        let mut mean = comm.device().from_slice(&[f16::from_f32(own)])?;
        comm.all_reduce_in_place(&mut x, Sum.in_f32())?;
        comm.all_reduce_in_place(&mut mean, Avg.in_f32())?;
        assert_eq!(x.to_vec()?, [bf16::from_f32(258.0)]);
        assert_eq!(mean.to_vec()?, [f16::from_f32(86.0)]);
        comm.finish()
    })
}

/// A mean that is just below the least normal number, and not rounded up to it.
#[test]
fn an_exact_mean_below_the_least_normal_number() -> Result<()> {
    let above = f64::from_bits(0x003f_ffff_ffff_ffff);
    let least = f64::from_bits(1);
    let values = [above, -least, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
    spmd::<Host>(8, |place| {
        let comm = place.init()?;
        let mut x = comm.device().from_slice(&[values[comm.rank().index()]])?;
        comm.all_reduce_in_place(&mut x, Avg.exact())?;
        assert_eq!(x.to_vec()?[0].to_bits(), 0x000f_ffff_ffff_ffff);
        comm.finish()
    })
}
