//! Registered memory with another owner: NCCL refers to it until the registration ends, so its
//! owner is not returned before.

use std::sync::Barrier;

use cudarc::driver::{CudaContext, CudaSlice};
use nccl_sys::Function::{ncclCommDeregister, ncclCommRegister};
use typed_nccl::{Adopted, Buffer, Clique, Communicator, Cuda, Error, Result, Sum};

use crate::common::{alone, connect, count, says, until};
use crate::scenario::{NEWEST, cuda, nccl, on};
use crate::waits::hold;

type Theirs<T> = Buffer<f32, Cuda<T>, Adopted<CudaSlice<f32>>>;

/// Memory of cudarc's on the device of a communicator.
fn theirs<T>(comm: &Communicator<Cuda<T>>) -> CudaSlice<f32> {
    theirs_on(comm.device())
}

fn theirs_on<T>(device: &Cuda<T>) -> CudaSlice<f32> {
    let context = CudaContext::new(device.ordinal() as usize).expect("the double's");
    context.new_stream().expect("a stream").clone_htod(&[1.0; 100]).expect("there is memory")
}

fn adopted<T>(comm: &Communicator<Cuda<T>>) -> Result<Theirs<T>> {
    Ok(comm.device().adopt(theirs(comm))?)
}

/// How often memory was freed.
fn freed() -> usize {
    cuda().called().iter().filter(|name| **name == "cuMemFreeAsync").count()
}

/// The owner is not returned: a communicator has the memory registered.
#[track_caller]
fn refused<T>(buffer: Theirs<T>) -> Theirs<T> {
    let failed = buffer.into_inner().expect_err("it is registered");
    assert!(matches!(failed.error, Error::NotAdoptable(_)), "{failed}");
    says(
        &failed.error,
        &["into_inner", "registered", "deregister_buffer", "registered_theirs.rs:"],
    );
    failed.value
}

#[test]
fn its_owner_comes_back_when_it_is_deregistered() {
    on(NEWEST, || {
        let mut comm = alone()?;
        let mut x = adopted(&comm)?;
        let [whole, part] = [comm.register_buffer(&x)?, comm.register_buffer(&x.slice(10..20))?];
        let mut x = refused({
            comm.all_reduce_in_place(&mut x, Sum)?;
            x
        });
        comm.deregister_buffer(whole)?;
        // Another registration covers a part of it.
        assert!(part.is_valid());
        comm.all_reduce_in_place(&mut x, Sum)?;
        let x = refused(x);
        assert_eq!((count(ncclCommRegister), nccl().live().registrations), (2, 1));
        assert_eq!(freed(), 0);
        comm.deregister_buffer(part)?;
        assert_eq!((count(ncclCommDeregister), nccl().live().registrations), (2, 0));
        let slice = x.into_inner()?;
        drop(slice);
        assert_eq!(freed(), 1, "the memory is its owner's");
        comm.finish()
    });
}

/// With ranks of one process, which end one after the other.
#[test]
fn its_owner_comes_back_when_the_communicator_has_ended() {
    on(NEWEST, || {
        for _ in 0..3 {
            Cuda::spmd(3, |place| {
                let mut comm = place.init()?;
                let mut x = adopted(&comm)?;
                let registered = comm.register_buffer(&x)?;
                comm.all_reduce_in_place(&mut x, Sum)?;
                let x = refused(x);
                comm.finish()?;
                assert!(!registered.is_valid());
                drop(x.into_inner()?);
                Ok::<_, Error>(())
            })?;
        }
        assert_eq!(count(ncclCommRegister), count(ncclCommDeregister));
        assert_eq!(freed(), 9);
        Ok(())
    });
}

/// NCCL drops registrations of ranks of one process when the last of them has ended.
#[test]
fn its_owner_comes_back_after_an_abort() {
    on(NEWEST, || {
        let mut comm = alone()?;
        let x = adopted(&comm)?;
        let registered = comm.register_buffer(&x)?;
        drop(comm.abort());
        assert!(!registered.is_valid());
        drop(x.into_inner()?);
        assert_eq!((freed(), nccl().live().registrations), (1, 0));

        let both = Barrier::new(2);
        Cuda::spmd(2, |place| {
            let mut comm = connect(place, 10_000)?;
            let x = adopted(&comm)?;
            let _registered = comm.register_buffer(&x)?;
            both.wait();
            let x = match comm.rank().index() {
                0 => {
                    drop(comm.abort());
                    // The other rank has not ended.
                    let x = refused(x);
                    both.wait();
                    x
                }
                _ => {
                    both.wait();
                    drop(comm.abort());
                    x
                }
            };
            let mut x = Some(x);
            until("it comes back", || match x.take().map(Buffer::into_inner) {
                Some(Err(failed)) => {
                    x = Some(refused(failed.value));
                    false
                }
                _ => true,
            });
            Ok::<_, Error>(())
        })?;
        assert_eq!((freed(), nccl().live().registrations), (3, 0));
        Ok(())
    });
}

/// A dropped communicator is not waited for.
#[test]
fn its_owner_comes_back_when_a_dropped_communicator_has_ended() {
    on(NEWEST, || {
        let mut comm = alone()?;
        let x = adopted(&comm)?;
        let _registered = comm.register_buffer(&x)?;
        // Its end is waited for.
        let mut other = comm.device().zeros::<f32>(4)?;
        hold(comm.stream())?;
        comm.all_reduce_in_place(&mut other, Sum)?;
        drop(comm);
        let mut x = Some(refused(x));
        cuda().release_all();
        until("it comes back", || match x.take().map(Buffer::into_inner) {
            Some(Ok(_)) => {
                assert_eq!(nccl().live().registrations, 0, "it is given back too early");
                true
            }
            Some(Err(failed)) => {
                x = Some(refused(failed.value));
                false
            }
            None => true,
        });
        Ok(())
    });
}

/// The next communicator has it registered too.
#[test]
fn it_stays_registered_when_a_communicator_recovers() {
    on(NEWEST, || {
        let both = Barrier::new(2);
        Cuda::spmd(2, |place| {
            let mut comm = connect(place, 10_000)?;
            if comm.rank().index() == 1 {
                both.wait();
                drop(comm.abort());
                return Ok(());
            }
            let x = adopted(&comm)?;
            let registered = comm.register_buffer(&x)?;
            both.wait();
            let mut y = comm.device().zeros::<f32>(4)?;
            let _ = comm.all_reduce_in_place(&mut y, Sum);
            let _ = y.to_vec();
            comm.recover()?;
            assert!(registered.is_valid());
            let x = refused(x);
            comm.deregister_buffer(registered)?;
            let mut x = Some(x);
            // NCCL keeps the former communicator until its ranks have ended.
            until("it comes back", || match x.take().map(Buffer::into_inner) {
                Some(Err(failed)) => {
                    x = Some(refused(failed.value));
                    false
                }
                _ => true,
            });
            comm.finish()
        })?;
        assert_eq!(nccl().live().registrations, 0);
        Ok(())
    });
}

/// Each has its own lease.
#[test]
fn it_stays_registered_while_another_communicator_has_it() {
    on(NEWEST, || {
        let (mut first, mut second) = (alone()?, alone()?);
        let mut third = alone()?;
        let x = adopted(&first)?;
        let _kept = (first.register_buffer(&x)?, second.register_buffer(&x.slice(0..10))?);
        let held = third.register_buffer(&x)?;
        first.finish()?;
        let x = refused(x);
        drop(second.abort());
        let x = refused(x);
        assert_eq!(nccl().live().registrations, 1);
        third.deregister_buffer(held)?;
        drop(x.into_inner()?);
        third.finish()
    });
}

/// The owner is dropped with the last reference to the memory.
#[test]
fn it_is_not_freed_while_it_is_registered() {
    on(NEWEST, || {
        let mut comm = alone()?;
        let x = adopted(&comm)?;
        let held = comm.register_buffer(&x)?;
        drop(x);
        assert_eq!((freed(), nccl().live().registrations), (0, 1));
        comm.deregister_buffer(held)?;
        assert_eq!((freed(), nccl().live().registrations), (1, 0));

        let outcome = std::panic::catch_unwind(|| {
            Cuda::spmd(2, |place| {
                let mut comm = place.init()?;
                let x = adopted(&comm)?;
                let _held = comm.register_buffer(&x)?;
                comm.barrier()?;
                assert_eq!(comm.rank().index(), 7, "it panics");
                comm.finish()
            })
        });
        assert!(!matches!(outcome, Ok(Ok(_))));
        until("it is freed", || freed() == 3);
        assert_eq!(nccl().live().registrations, 0);
        comm.finish()
    });
}

/// In any state, and with any remaining ranks.
#[test]
fn it_stays_registered_while_the_communicator_changes() {
    on(NEWEST, || {
        let mut comm = alone()?;
        let x = adopted(&comm)?;
        let held = comm.register_buffer(&x)?;
        let comm = comm.suspend()?;
        let x = refused(x);
        let comm = comm.resume()?.shrink(&[])?;
        assert!(held.is_valid());
        let x = refused(x);
        assert_eq!(nccl().live().registrations, 1);
        comm.finish()?;
        assert!(!held.is_valid());
        drop(x.into_inner()?);
        assert_eq!((freed(), nccl().live().registrations), (1, 0));

        let mut comm = alone()?;
        let x = adopted(&comm)?;
        let _held = comm.register_buffer(&x)?;
        drop(comm.suspend()?);
        let mut x = Some(x);
        until("it comes back", || match x.take().map(Buffer::into_inner) {
            Some(Err(failed)) => {
                x = Some(refused(failed.value));
                false
            }
            _ => true,
        });
        assert_eq!((freed(), nccl().live().registrations), (2, 0));
        Ok(())
    });
}

#[test]
fn what_a_clique_registered_ends_with_it() {
    on(NEWEST, || {
        let mut clique = Clique::init(Cuda::open_each(&[0, 1])?)?;
        let xs = clique.per_rank(|_, device| Ok(device.adopt(theirs_on(device))?))?;
        let _held = clique.register_buffer(&xs)?;
        assert_eq!(nccl().live().registrations, 2);
        let mut left = Vec::new();
        for x in xs.into_vec() {
            left.push(refused(x));
        }
        clique.finish()?;
        for x in left {
            drop(x.into_inner()?);
        }
        assert_eq!((freed(), nccl().live().registrations), (2, 0));
        Ok(())
    });
}

#[test]
fn lent_memory_is_not_registered() {
    on(NEWEST, || {
        for time in 0..3 {
            let mut comm = alone()?;
            let device = comm.device().clone();
            let (slice, mut other) = (theirs(&comm), theirs(&comm));
            let kept = device.lend(&slice, |x| comm.register_buffer(x));
            assert_lent(kept.map(drop));
            let kept = device.lend(&mut other, |x| comm.register_buffer(&x.as_slice()));
            assert_lent(kept.map(drop));
            drop((slice, other));
            assert_eq!((count(ncclCommRegister), freed()), (0, 2 * (time + 1)));
            comm.finish()?;
        }
        Ok(())
    });
}

#[track_caller]
fn assert_lent(outcome: Result<()>) {
    let help = ["register_buffer", "lent", "`device.adopt(owner)`", "registered_theirs.rs:"];
    let error = assert_error!(outcome, NotAdoptable, help[0], help[1], help[2], help[3]);
    assert!(!error.is_fatal());
}
