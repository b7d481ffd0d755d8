//! Panics of closures: reported where their result is read, once.

use std::panic::resume_unwind;

use typed_nccl::error::Error;
use typed_nccl::{Host, Result, Sum};

use crate::ranks::spmd;

use super::gate::{Gate, panicked, until_reached};

#[test]
fn a_panic_surfaces_once_and_the_stream_goes_on() -> Result<()> {
    let host = Host::local()?;
    let stream = host.stream()?;
    let mut x = host.zeros::<i32>(3)?;
    let line = line!() + 1;
    stream.launch(&mut x, |x, ()| panic!("a panic that a test made, of {} elements", x.len()))?;
    match x.to_vec() {
        Err(error @ Error::Panicked(_)) => {
            let text = error.to_string();
            assert!(text.contains("a panic that a test made, of 3 elements"), "{text}");
            assert!(text.contains(&format!("tests/order/panics.rs:{line}")), "{text}");
            assert!(!error.is_fatal() && !error.is_refusal());
        }
        other => panic!("{other:?} instead of a panic"),
    }
    x.to_vec()?;
    stream.sync()?;
    stream.launch(&mut x, |x, ()| x.fill(5))?;
    assert_eq!(x.to_vec()?, [5; 3]);
    Ok(())
}

#[test]
fn what_follows_a_panic_runs() -> Result<()> {
    let host = Host::local()?;
    let (a, b) = (host.stream()?, host.stream()?);
    let (mut x, mut y) = (host.zeros::<i32>(3)?, host.zeros::<i32>(3)?);
    a.launch((), |(), ()| resume_unwind(Box::new("text")))?;
    a.launch(&mut x, |x, ()| x.fill(1))?;
    b.launch((&x, &mut y), |(x, y), ()| y.copy_from_slice(x))?;
    // A wait for this stream also waits for that one.
    assert_eq!(panicked(b.sync()), "text");
    a.sync()?;
    assert_eq!(x.to_vec()?, [1; 3]);
    assert_eq!(y.to_vec()?, [1; 3]);
    Ok(())
}

#[test]
fn each_stream_keeps_its_own_panic() -> Result<()> {
    let host = Host::local()?;
    let (a, b) = (host.stream()?, host.stream()?);
    a.launch((), |(), ()| resume_unwind(Box::new("one".to_owned())))?;
    b.launch((), |(), ()| resume_unwind(Box::new(2)))?;
    assert_eq!(panicked(b.sync()), "it gave no message");
    assert_eq!(panicked(a.sync()), "one");
    a.sync()?;
    b.sync()
}

#[test]
fn every_panic_surfaces_once() -> Result<()> {
    let host = Host::local()?;
    let (a, b) = (host.stream()?, host.stream()?);
    let mut x = host.zeros::<i32>(3)?;
    a.launch(&x, |_, ()| resume_unwind(Box::new("one")))?;
    b.launch(&x, |_, ()| resume_unwind(Box::new("two")))?;
    // Overwriting waits for the readers, if they are not over.
    let waits = [x.copy_from(&[1; 3]), x.copy_from(&[1; 3]), a.sync(), b.sync()];
    let mut found: Vec<_> = waits.into_iter().filter(Result::is_err).map(panicked).collect();
    found.sort();
    assert_eq!(found, ["one", "two"]);
    x.copy_from(&[1; 3])?;
    assert_eq!(x.to_vec()?, [1; 3]);
    a.sync()?;
    b.sync()
}

/// Another stream that waits for this one may report the panic too, but readers of the closure's
/// output still get it.
#[test]
fn a_panic_surfaces_where_its_result_is_read() -> Result<()> {
    let host = Host::local()?;
    let (a, b) = (host.stream()?, host.stream()?);
    let (mut x, mut y) = (host.zeros::<i32>(3)?, host.zeros::<i32>(3)?);
    a.launch(&mut x, |_, ()| resume_unwind(Box::new("text")))?;
    b.launch((&x, &mut y), |(x, y), ()| y.copy_from_slice(x))?;
    until_reached(&b.mark()?)?;
    assert_eq!(panicked(x.to_vec().map(drop)), "text");
    Ok(())
}

/// The mark is older than the panic, so a wait for it does not report the panic.
#[test]
fn a_panic_after_a_mark_stays_with_its_stream() -> Result<()> {
    let host = Host::local()?;
    let (a, b) = (host.stream()?, host.stream()?);
    let mut x = host.zeros::<i32>(3)?;
    let gate = Gate::new();
    let pass = gate.pass();
    let before = a.mark()?;
    b.launch((), |(), ()| pass())?;
    b.wait_for(&before)?;
    a.launch(&mut x, |_, ()| resume_unwind(Box::new("text")))?;
    until_reached(&a.mark()?)?;
    gate.open();
    b.sync()?;
    assert_eq!(panicked(x.to_vec().map(drop)), "text");
    Ok(())
}

/// What the closure was to write may be an operand, so the other ranks get no numbers.
#[test]
fn a_panic_before_a_collective_is_told_to_all() -> Result<()> {
    spmd::<Host>(3, |place| {
        let comm = place.init()?;
        let (rank, mut x) = (comm.rank().index(), comm.device().from_slice(&[1, 2])?);
        let mut y = comm.device().zeros::<i32>(2)?;
        if rank == 0 {
            comm.stream().launch(&mut x, |_, ()| resume_unwind(Box::new("text")))?;
        }
        comm.all_reduce(&x, &mut y, Sum)?;
        match y.to_vec() {
            Err(error) if rank == 0 => assert_eq!(panicked(Err(error)), "text"),
            Err(Error::Refused(refused)) => {
                let text = refused.to_string();
                assert!(refused.by.index() == 0 && text.contains("text"), "{text}");
            }
            other => panic!("{other:?} on rank {rank}"),
        }
        comm.health()?;
        x.copy_from(&[1, 2])?;
        comm.all_reduce(&x, &mut y, Sum)?;
        assert_eq!(y.to_vec()?, [3, 6]);
        comm.finish()
    })
}

#[test]
fn a_panic_before_a_send_or_a_signal_is_told_to_the_peer() -> Result<()> {
    spmd::<Host>(2, |place| {
        let mut comm = place.init()?;
        let (rank, mut x) = (comm.rank().index(), comm.device().from_slice(&[1, 2])?);
        let (source, window) = (comm.window::<i32>(2)?, comm.window::<i32>(2)?);
        if rank == 0 {
            for puts in [false, true] {
                comm.stream().launch(&mut x, |_, ()| resume_unwind(Box::new("text")))?;
                match puts {
                    false => comm.send(&x, 1)?,
                    true => comm.put_signal(&source, 1, window.at(0))?,
                }
                assert_eq!(panicked(comm.sync(comm.stream())), "text");
            }
        } else {
            comm.recv(&mut x, 0)?;
            assert!(matches!(x.to_vec(), Err(Error::Refused(_))));
            comm.wait_signal(0)?;
            assert!(matches!(comm.sync(comm.stream()), Err(Error::Refused(_))));
            assert_eq!(x.to_vec()?, [1, 2]);
            assert_eq!(window.to_vec()?, [0, 0]);
        }
        comm.health()?;
        comm.close(source)?;
        comm.close(window)?;
        comm.finish()
    })
}

/// A panic that a host wait has reported is the program's to handle.
#[test]
fn a_panic_that_is_known_holds_nothing_up() -> Result<()> {
    spmd::<Host>(2, |place| {
        let comm = place.init()?;
        let mut x = comm.device().from_slice(&[1, 2])?;
        if comm.rank().index() == 0 {
            comm.stream().launch((), |(), ()| resume_unwind(Box::new("text")))?;
            assert_eq!(panicked(comm.sync(comm.stream())), "text");
        }
        comm.all_reduce_in_place(&mut x, Sum)?;
        assert_eq!(x.to_vec()?, [2, 4]);
        comm.finish()
    })
}

/// What a program learns after it has enqueued a call does not mend that call.
#[test]
fn a_panic_that_is_known_too_late_is_told_to_all() -> Result<()> {
    spmd::<Host>(2, |place| {
        let comm = place.init()?;
        let (rank, mut x) = (comm.rank().index(), comm.device().from_slice(&[1, 2])?);
        let mut y = comm.device().zeros::<i32>(2)?;
        let panics = rank == 0;
        if panics {
            // The communicator is at an earlier call, for which the other rank is late.
            let other = comm.device().stream()?;
            let mut z = comm.device().zeros::<i32>(2)?;
            comm.on(&other).all_reduce_in_place(&mut z, Sum)?;
            comm.stream().launch(&mut x, |_, ()| resume_unwind(Box::new("text")))?;
            let mark = comm.mark(comm.stream())?;
            comm.all_reduce(&x, &mut y, Sum)?;
            assert_eq!(panicked(comm.wait(&mark)), "text");
            comm.gather_values(&())?;
            z.to_vec()?;
            y.to_vec()?;
        } else {
            comm.gather_values(&())?;
            let mut z = comm.device().zeros::<i32>(2)?;
            comm.all_reduce_in_place(&mut z, Sum)?;
            comm.all_reduce(&x, &mut y, Sum)?;
            assert!(matches!(y.to_vec(), Err(Error::Refused(_))));
        }
        comm.all_reduce(&x, &mut y, Sum)?;
        y.to_vec()?;
        comm.finish()
    })
}

/// One wait reports one panic, and is behind all of them.
#[test]
fn what_follows_a_wait_behind_two_panics_is_not_refused() -> Result<()> {
    spmd::<Host>(2, |place| {
        let comm = place.init()?;
        let mut x = comm.device().from_slice(&[1, 2])?;
        if comm.rank().index() == 0 {
            for text in ["one", "two"] {
                comm.stream().launch(&mut x, move |_, ()| resume_unwind(Box::new(text)))?;
            }
            assert_eq!(panicked(comm.sync(comm.stream())), "one");
            comm.all_reduce_in_place(&mut x, Sum)?;
            assert_eq!(panicked(x.to_vec().map(drop)), "two");
        } else {
            comm.all_reduce_in_place(&mut x, Sum)?;
        }
        assert_eq!(x.to_vec()?, [2, 4]);
        comm.finish()
    })
}
