//! Copies in stream order from and to pinned memory, and operators with a scalar on the device.

use std::sync::mpsc;

use typed_nccl::{Error, Host, Result};

use crate::ranks::spmd;

fn says(error: &Error, parts: &[&str]) {
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "`{part}` is missing in: {text}");
    }
}

/// Values that encode their place.
fn ramp(len: usize, from: i32) -> Vec<i32> {
    (0..len).map(|i| from + i as i32).collect()
}

#[test]
fn copies_take_their_turn_and_give_their_memory_back() -> Result<()> {
    let host = Host::local()?;
    let (stream, other) = (host.stream()?, host.stream()?);
    let mut x = host.zeros::<i32>(1000)?;
    let (mut up, down) = (host.pinned::<i32>(1000)?, host.pinned::<i32>(1000)?);
    assert!(down.as_slice().iter().all(|&v| v == 0) && !up.is_empty() && up.len() == 1000);
    up.as_mut_slice().copy_from_slice(&ramp(1000, 7));

    // The gate blocks the stream: neither copy has run when the calls return.
    let (open, gate) = mpsc::channel::<()>();
    stream.launch((), move |(), ()| assert!(gate.recv().is_ok()))?;
    let up = stream.upload(up, &mut x)?;
    stream.launch(&mut x, |x, ()| x.iter_mut().for_each(|v| *v *= 2))?;
    // Another stream's use of `x` waits for the first's.
    let down = other.download(&x, down)?;
    assert!(!up.is_done()? && !down.is_done()?);
    assert!(open.send(()).is_ok());

    let doubled: Vec<i32> = ramp(1000, 7).iter().map(|v| v * 2).collect();
    let down = down.wait()?;
    assert_eq!(down.as_slice(), doubled);
    assert!(up.is_done()?);
    let mut up = up.wait()?;
    assert_eq!(up.as_slice(), ramp(1000, 7));

    // The memory is usable again, for a part.
    let mut small = host.pinned::<i32>(10)?;
    small.as_mut_slice().fill(-1);
    let _ = stream.upload(small, &mut x.slice_mut(5..15))?.wait()?;
    up.as_mut_slice().fill(0);
    let got = stream.download(&x, up)?.wait()?;
    let mut wanted = doubled;
    wanted[5..15].fill(-1);
    assert_eq!(got.as_slice(), wanted);
    Ok(())
}

#[test]
fn a_copy_that_nobody_waits_for_still_runs() -> Result<()> {
    let host = Host::local()?;
    let stream = host.stream()?;
    let mut x = host.zeros::<i32>(64)?;
    let (open, gate) = mpsc::channel::<()>();
    stream.launch((), move |(), ()| assert!(gate.recv().is_ok()))?;
    let mut up = host.pinned::<i32>(64)?;
    up.as_mut_slice().copy_from_slice(&ramp(64, 1));
    drop(stream.upload(up, &mut x)?);
    // Nothing else keeps the memory that this one reads and writes.
    drop(stream.download(&host.zeros::<i32>(64)?, host.pinned(64)?)?);
    assert!(open.send(()).is_ok());
    assert_eq!(x.to_vec()?, ramp(64, 1));
    Ok(())
}

#[test]
fn what_is_refused_comes_back() -> Result<()> {
    let host = Host::local()?;
    let stream = host.stream()?;
    let mut x = host.zeros::<i32>(4)?;
    let mut up = host.pinned::<i32>(5)?;
    up.as_mut_slice().copy_from_slice(&[1, 2, 3, 4, 5]);
    let failed = stream.upload(up, &mut x).expect_err("five into four");
    says(&failed.error, &["upload", "4", "5", "pinned.rs"]);
    assert_eq!(failed.value.as_slice(), [1, 2, 3, 4, 5]);
    let failed = stream.download(&x.slice(3..6), failed.value).expect_err("past the end");
    says(&failed.error, &["3..6", "4"]);
    assert_eq!(failed.value.as_slice(), [1, 2, 3, 4, 5]);
    let error = host.pinned::<i64>(usize::MAX / 4).expect_err("too much");
    says(&error, &["pinned"]);
    assert_eq!(x.to_vec()?, [0; 4]);
    Ok(())
}

#[test]
fn operators_scale_by_what_lies_on_the_device() -> Result<()> {
    spmd::<Host>(4, |place| {
        let mut comm = place.init()?;
        let rank = comm.rank().index() as f32;
        // The scalar is computed in stream order; the operator takes the value written by then.
        let mut scalar = comm.device().zeros::<f32>(1)?;
        let stream = comm.device().stream()?;
        stream.launch(&mut scalar, move |s, ()| s[0] = rank + 1.0)?;
        let scale = comm.pre_mul_sum_device(scalar)?;
        let mut x = comm.device().from_slice(&[1.0_f32, rank, 2.0])?;
        comm.all_reduce_in_place(&mut x, &scale)?;
        assert_eq!(x.to_vec()?, [10.0, 20.0, 20.0]);
        // Any number of times, and together with one with a scalar on the host.
        let half = comm.pre_mul_sum(0.5_f32)?;
        comm.all_reduce_in_place(&mut x, &half)?;
        comm.all_reduce_in_place(&mut x, &scale)?;
        assert_eq!(x.to_vec()?, [200.0, 400.0, 400.0]);

        let empty = comm.device().zeros::<f32>(0)?;
        let error = comm.pre_mul_sum_device(empty).expect_err("no scalar");
        says(&error, &["pre_mul_sum_device", "scalar"]);
        comm.finish()
    })
}
