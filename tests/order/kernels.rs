//! Kernels on the host: their arguments, order, reads and writes.

use typed_nccl::{
    Buffer, Communicator, Device, Error, F8E4M3, Host, Readable, Result, Seat, Stream, Sum,
    Writable, bf16, f16, kernel,
};

use crate::ranks::spmd;

use super::axpy::axpy;

kernel! {
    /// One kernel for each type.
    #[launch(threads = 128, blocks = x.len().div_ceil(if twice { 256 } else { 128 }))]
    fn shifted<T: Float>(by: T, twice: bool, x: &[T], y: &mut [T]);
    // SAFETY: it stays within `y`, and the tests give it an `x` as long.
    unsafe cuda file "kernels/shifted.cu";
    host {
        let many = if twice { 2 } else { 1 };
        for (at, y) in y.iter_mut().enumerate() {
            *y = if at < many { by } else { x[at - many] };
        }
    }
}

kernel! {
    /// Every element type, and the types passed by value only.
    fn all(
        a: i8, b: u8, c: i32, d: u32, e: i64, f: u64, g: f16, h: bf16, n: usize, is: bool,
        x: &[F8E4M3], y: &mut [f64],
    );
    host {
        let integers = [i64::from(a), i64::from(b), i64::from(c), i64::from(d), e, f as i64, n as i64];
        let floats = [g.to_f64(), h.to_f64(), x.iter().map(|x| x.to_f64()).sum()];
        if is {
            y[0] = integers.iter().sum::<i64>() as f64;
            y[1] = floats.iter().sum();
        }
    }
}

kernel! {
    /// A kernel that only takes its turn.
    fn panics();
    host { panic!("as it was told") }
}

/// A program that computes, for any device.
fn twice<D: Device>(stream: &Stream<D>, x: &Buffer<f32, D>, y: &mut Buffer<f32, D>) -> Result<()> {
    stream.run(axpy(1.0, x, y))?;
    stream.run(axpy(1.0, x, y))
}

/// Likewise for any memory.
fn once<D: Device, X, Y>(stream: &Stream<D>, x: &X, y: &mut Y) -> Result<()>
where
    X: Readable<D, Elem = f32>,
    Y: Writable<D, Elem = f32>,
{
    stream.run(axpy(1.0, x, y))
}

/// A parameter that borrows works as the memory it borrows: an extra `&` is allowed.
#[test]
fn loans_of_loans() -> Result<()> {
    let comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let (x, mut y) = (comm.device().from_slice(&[1.0; 4])?, comm.device().zeros(4)?);
    let (x, mut y) = (&x, &mut y);
    comm.stream().run(axpy(2.0, x, &mut y))?;
    assert_eq!(y.to_vec()?, [2.0; 4]);
    comm.all_reduce(&x, &mut y, Sum)?;
    assert_eq!(y.to_vec()?, [1.0; 4]);
    comm.finish()
}

#[test]
fn a_kernel_runs_in_stream_order() -> Result<()> {
    let host = Host::local()?;
    let (one, other) = (host.stream()?, host.stream()?);
    let (x, mut y) = (host.from_slice(&[1.0; 1000])?, host.zeros(1000)?);
    for _ in 0..20 {
        twice(&one, &x, &mut y)?;
        once(&other, &x.slice(10..20), &mut y.slice_mut(0..10))?;
        other.launch(&mut y, |y, ()| y[0] *= 2.0)?;
        one.run(axpy(-2.0, &y.to_vec().and_then(|y| host.from_slice(&y))?, &mut y))?;
    }
    // y <- -((y + 2 + [at < 10]) * [2 if at = 0])
    let expected =
        (0..20).fold([0.0_f32; 3], |[a, b, c], _| [-2.0 * (a + 3.0), -(b + 3.0), -(c + 2.0)]);
    let y = y.to_vec()?;
    assert_eq!([y[0], y[1], y[999]], expected);
    Ok(())
}

#[test]
fn arguments_arrive_as_they_are() -> Result<()> {
    let host = Host::local()?;
    let stream = host.stream()?;
    let (x, mut y) = (host.from_slice(&[F8E4M3::from_f32(2.0); 3])?, host.zeros(2)?);
    let (g, h) = (f16::from_f32(0.25), bf16::from_f32(0.5));
    stream.run(all(-1, 2, -3, 4, -5, 6, g, h, 7, true, &x, &mut y))?;
    stream.run(all(0, 0, 0, 0, 0, 0, g, h, 0, false, &x, &mut y))?;
    assert_eq!(y.to_vec()?, [10.0, 6.75]);
    Ok(())
}

#[test]
fn one_kernel_for_each_type() -> Result<()> {
    let host = Host::local()?;
    let stream = host.stream()?;
    let (x, mut y) = (host.from_slice(&[1.0_f64, 2.0, 3.0])?, host.zeros::<f64>(3)?);
    stream.run(shifted(9.0, false, &x, &mut y))?;
    assert_eq!(y.to_vec()?, [9.0, 1.0, 2.0]);
    let half = [1.0, 2.0, 3.0].map(f16::from_f32);
    let (x, mut y) = (host.from_slice(&half)?, host.zeros::<f16>(3)?);
    stream.run(shifted(half[2], true, &x, &mut y).grid(1, 32).shared_memory(64))?;
    assert_eq!(y.to_vec()?, [3.0, 3.0, 1.0].map(f16::from_f32));
    Ok(())
}

#[test]
fn windows_are_arguments() {
    spmd::<Host>(3, |place| {
        let mut comm: Communicator<_> = place.init()?;
        let mut window = comm.window::<f32>(8)?;
        let x = comm.device().from_slice(&[comm.rank().index() as f32; 8])?;
        comm.stream().run(axpy(2.0, &x, &mut window))?;
        comm.all_reduce_in_place(&mut window, Sum)?;
        let mut y = comm.device().zeros(4)?;
        comm.stream().run(axpy(1.0, window.slice(2..6), &mut y))?;
        assert_eq!(y.to_vec()?, [6.0; 4]);
        drop(window);
        comm.finish()
    })
    .expect("every rank computes");
}

#[test]
fn a_panic_in_a_kernel_is_told() -> Result<()> {
    let host = Host::local()?;
    let stream = host.stream()?;
    stream.run(panics())?;
    let told = stream.sync().expect_err("its body panicked");
    assert!(matches!(&told, Error::Panicked(_)), "{told}");
    assert!(told.to_string().contains("as it was told"), "{told}");
    stream.sync()
}

#[test]
fn a_view_past_its_buffer_is_refused() -> Result<()> {
    let host = Host::local()?;
    let stream = host.stream()?;
    let (x, mut y) = (host.zeros(4)?, host.zeros(4)?);
    let told = stream.run(axpy(1.0, x.slice(2..5), &mut y)).expect_err("past its end");
    assert!(matches!(&told, Error::BadRange(_)), "{told}");
    Ok(())
}

#[test]
fn a_launch_reads_as_what_it_is() -> Result<()> {
    let host = Host::local()?;
    let (x, mut y) = (host.zeros(4)?, host.zeros(4)?);
    let launch = axpy(1.0, &x, &mut y);
    assert_eq!(format!("{launch:?}"), "a launch of `axpy`");
    host.stream()?.run(launch)
}

#[test]
fn a_graph_runs_kernels() {
    spmd::<Host>(3, |place| {
        let mut comm: Communicator<_> = place.init()?;
        let x = comm.device().from_slice(&[1.0; 10])?;
        let mut y = comm.device().zeros(10)?;
        let mut graph = comm.capture(|g| {
            g.run(axpy(0.5, &x, &mut y))?;
            g.all_reduce_in_place(&mut y, Sum)?;
            g.run(axpy(-1.0, &x, &mut y))
        })?;
        assert_eq!(y.to_vec()?, [0.0; 10], "nothing has run");
        (0..3).try_for_each(|_| graph.launch(&comm))?;
        assert_eq!(y.to_vec()?, [6.5; 10]);
        comm.finish()
    })
    .expect("every rank computes");
}
