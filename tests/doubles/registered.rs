//! Registered memory: which transfers use it, when registrations end, and in which order.
//!
//! The double of NCCL tracks registrations, and reports misuse if a message's two sides differ,
//! where NCCL hangs. Every scenario ends with a check for that.

use std::thread;
use std::time::Duration;

use nccl_sys::Function::{ncclCommDeregister, ncclCommRegister, ncclRecv, ncclSend};
use nccl_sys::ncclResult_t;
use typed_nccl::{CommConfig, Communicator, Cuda, Error, LocalOnly, Place, Result, Sum, Transfers};

use crate::common::{Wire, address, alone, calls, clear, connect, count, says};
use crate::scenario::{NEWEST, cuda, nccl, on, release};
use crate::waits::hold;

/// From this size on memory is virtual.
const PIECE: usize = 2 << 20;

/// The size, in floats, at which NCCL uses its shorter path.
const LONG: usize = 16 << 10;

fn registered<T>(place: Place<Cuda<T>>) -> Result<Communicator<Cuda<T>>> {
    let (seat, device) = place.into_parts();
    let config = CommConfig::builder().transfers(Transfers::Registered).build();
    Communicator::builder().seat(seat).device(device).config(config).build().connect()
}

/// Every kind of memory with every kind, in both roles.
#[test]
fn any_memory_meets_any_other() {
    on(NEWEST, || {
        cuda().set_virtual(PIECE);
        Cuda::spmd(2, |place| {
            let mut comm = place.init()?;
            let (rank, peer) = (comm.rank().index(), comm.ring(1));
            let mut window = comm.window::<f32>(LONG)?;
            let mut both = comm.window::<f32>(LONG)?;
            let local = comm.device().nccl_zeros::<f32>(LONG)?;
            let mut local = comm.register_window_as(local, LocalOnly)?;
            let mut nccls = comm.device().nccl_zeros::<f32>(LONG)?;
            let mut known = comm.device().nccl_zeros::<f32>(LONG)?;
            let mut plain = comm.device().zeros::<f32>(LONG)?;
            let mut kept = comm.device().zeros::<f32>(LONG)?;
            let [.., _of_part] = [
                comm.register_buffer(&known)?,
                comm.register_buffer(&kept)?,
                comm.register_buffer(&both)?,
                comm.register_buffer(&plain.slice(0..10))?,
            ];
            let mut all = [
                window.local_mut(),
                both.local_mut(),
                local.local_mut(),
                nccls.slice_mut(0..LONG),
                known.slice_mut(0..LONG),
                plain.slice_mut(0..LONG),
                kept.slice_mut(0..LONG),
            ];
            for from in 0..all.len() {
                for to in 0..all.len() {
                    match rank {
                        0 => comm.send(&all[from], peer)?,
                        _ => comm.recv(&mut all[to], peer)?,
                    }
                }
            }
            comm.finish()
        })?;
        assert_eq!((count(ncclSend), count(ncclRecv)), (49, 49));
        Ok(())
    });
}

/// The double detects what it is meant to detect.
#[test]
fn the_double_notices_one_side_that_is_registered() {
    on(NEWEST, || {
        // Without a second address, NCCL's memory is passed by its own.
        Cuda::spmd(2, |place| {
            let comm = place.init()?;
            let (rank, peer) = (comm.rank().index(), comm.ring(1));
            let mut x = comm.device().nccl_zeros::<f32>(LONG)?;
            let start = address(comm.stream(), &x)? as usize;
            let wire = Wire::of(&comm)?;
            if rank == 0 {
                let api = nccl().api().expect("the double loads");
                let register = api.ncclCommRegister().expect("the double has it");
                let mut handle = std::ptr::null_mut();
                let comm = std::ptr::with_exposed_provenance_mut(wire.comm as usize);
                let memory = std::ptr::with_exposed_provenance_mut(start);
                // SAFETY: the communicator is alive, and so is its memory of this length.
                let result = unsafe { register(comm, memory, 4 * LONG, &raw mut handle) };
                assert_eq!(result, ncclResult_t::ncclSuccess);
            }
            comm.barrier()?;
            match rank {
                0 => comm.send(&x, peer)?,
                _ => comm.recv(&mut x, peer)?,
            }
            comm.finish()
        })?;
        let misuse = nccl().misuse();
        assert!(misuse.len() == 1 && misuse[0].contains("both wait for ever"), "{misuse:?}");
        nccl().clear();
        Ok(())
    });
}

#[test]
fn transfers_of_registered_memory_name_it_by_its_own_address() {
    on(NEWEST, || {
        cuda().set_virtual(PIECE);
        Cuda::spmd(2, |place| {
            let mut comm = registered(place)?;
            let peer = comm.ring(1);
            let window = comm.window::<f32>(LONG)?;
            let mut buffer = comm.device().nccl_zeros::<f32>(2 * LONG)?;
            let (w, b) = (window.user_ptr().addr() as u64, address(comm.stream(), &buffer)?);
            // A part of it.
            let held = comm.register_buffer(&buffer.slice(100..LONG + 100))?;
            assert_eq!(held.size(), 4 * LONG);
            comm.group(|g| {
                g.send(&window, peer)?;
                g.recv(buffer.slice_mut(100..LONG + 100), peer)
            })?;
            comm.group(|g| {
                g.send(window.slice(5..20), peer)?;
                g.recv(buffer.slice_mut(200..215), peer)
            })?;
            // An empty buffer has no address.
            comm.group(|g| {
                g.send(window.slice(0..0), peer)?;
                g.recv(buffer.slice_mut(0..0), peer)
            })?;
            let own = |function, name| {
                let mine = |call: &fake_nccl::Call| {
                    let at = call.pointer(name) as u64;
                    (w..w + 4).contains(&at) || (b..b + 8 * LONG as u64).contains(&at)
                };
                calls(function).iter().filter(|call| call.int("count") > 0 && mine(call)).count()
            };
            // The other rank's are at other addresses.
            assert!(own(ncclRecv, "recvbuff") == 2 && own(ncclSend, "sendbuff") > 0);
            comm.deregister_buffer(held)?;
            comm.close(window)?;
            comm.finish()
        })
        .map(drop)
    });
}

/// Memory that would break the other rank's assumption is refused, and the other rank gets an
/// error.
#[test]
fn other_memory_is_refused() {
    on(NEWEST, || {
        cuda().set_virtual(PIECE);
        for case in 0..6 {
            Cuda::spmd(2, |place| {
                let mut comm = registered(place)?;
                let peer = comm.ring(1);
                let mut buffer = comm.device().nccl_zeros::<f32>(LONG)?;
                let plain = comm.device().zeros::<f32>(LONG)?;
                let held = comm.register_buffer(&buffer.slice(0..LONG / 2))?;
                let _plain_too = comm.register_buffer(&plain)?;
                let mut window = comm.window::<f32>(8)?;
                if comm.rank().index() == 1 {
                    hold(comm.stream())?;
                    comm.recv(&mut buffer.slice_mut(0..8), peer)?;
                    let error = buffer.to_vec().expect_err("the other rank refused");
                    assert!(matches!(error, Error::Refused(_)), "{error}");
                    says(&error, &["Transfers::Registered", "send"]);
                    return Ok::<_, Error>(());
                }
                let (of_nccl, of_none) = ("comm.register_buffer(&buffer)", "`nccl_zeros`");
                let (outcome, help) = match case {
                    0 => (comm.send(&plain, peer), of_none),
                    1 => (comm.send(&buffer, peer), of_nccl),
                    2 => (comm.send(&buffer.slice(LONG / 2 - 4..LONG / 2 + 4), peer), of_nccl),
                    3 => {
                        comm.deregister_buffer(held)?;
                        (comm.send(&buffer.slice(0..8), peer), of_nccl)
                    }
                    4 => (comm.group(|g| g.send(&plain, peer)), of_none),
                    _ => {
                        let unknown = comm.device().nccl_zeros::<f32>(8)?;
                        let grouped = comm.group(|g| {
                            g.recv(window.local_mut(), peer)?;
                            g.send(&unknown, peer)
                        });
                        (grouped, of_nccl)
                    }
                };
                let error = outcome.expect_err("the memory is not registered");
                assert!(matches!(error, Error::NotRegistered(_)), "{error}");
                assert!(error.is_refusal());
                says(&error, &["send: memory that is not", help, "registered.rs:", "split_with"]);
                // The other rank gets that error, not one about the end.
                let _ = comm.barrier();
                Ok::<_, Error>(())
            })?;
        }
        assert_eq!((count(ncclSend), nccl().live().registrations), (0, 0));
        Ok(())
    });
}

/// A child has its own choice.
#[test]
fn a_child_takes_other_memory() {
    on(NEWEST, || {
        cuda().set_virtual(PIECE);
        let mut comm = alone()?;
        let x = comm.device().nccl_zeros::<f32>(LONG)?;
        let config = CommConfig::builder().transfers(Transfers::Registered).build();
        let mut child = comm.split_with::<Child>(0, 0, config)?;
        let mut y = child.device().nccl_zeros::<f32>(LONG)?;
        let outcome = child.group(|g| {
            g.send(&x, 0)?;
            g.recv(&mut y, 0)
        });
        assert_error!(outcome, NotRegistered, "the transfers of Child are");
        comm.group(|g| {
            g.send(&x, 0)?;
            g.recv(&mut y, 0)
        })?;
        child.finish()?;
        comm.finish()
    });
}

typed_nccl::tag!(Child);

/// NCCL keeps one handle per page, with a count.
#[test]
fn registrations_end_in_any_order() {
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2]] {
        on(NEWEST, || {
            let mut comm = alone()?;
            let mut x = comm.device().nccl_zeros::<i32>(5000)?;
            let plain = comm.device().zeros::<i32>(10)?;
            let (window, closing) = (comm.window::<i32>(8)?, comm.window::<i32>(8)?);
            let operator = comm.pre_mul_sum(3)?;
            let held = [
                comm.register_buffer(&x)?,
                comm.register_buffer(&x.slice(0..10))?,
                comm.register_buffer(&x.slice(4000..5000))?,
                comm.register_buffer(&plain)?,
            ];
            assert_eq!(held[0].handle(), held[1].handle(), "one page has one handle");
            comm.all_reduce_in_place(&mut x, &operator)?;
            let mut held = held.map(Some);
            for (done, index) in order.into_iter().enumerate() {
                let live = nccl().live();
                assert_eq!((live.registrations, live.windows), (4 - done, 2));
                comm.deregister_buffer(held[index].take().expect("once"))?;
                comm.all_reduce_in_place(&mut x, Sum)?;
            }
            // Dropped registrations stay until the communicator ends, operators until the next one.
            drop((window, operator, comm.register_buffer(&x)?));
            comm.close(closing)?;
            let live = nccl().live();
            assert_eq!((live.registrations, live.windows, live.operators), (1, 1, 1));
            drop(x);
            comm.finish()?;
            let live = nccl().live();
            assert_eq!((live.registrations, live.windows, live.operators), (0, 0, 0));
            Ok(())
        });
    }
}

/// A peer may access the memory as long as this rank's own part is not over.
#[test]
fn the_end_of_a_registration_waits_for_its_uses() {
    on(NEWEST, || {
        let mut comm = alone()?;
        let mut x = comm.device().nccl_zeros::<i32>(50)?;
        let held = comm.register_buffer(&x)?;
        hold(comm.stream())?;
        comm.all_reduce_in_place(&mut x, Sum)?;
        clear();
        let waiting = thread::spawn(move || {
            thread::sleep(Duration::from_millis(50));
            let early = count(ncclCommDeregister);
            cuda().release_all();
            early
        });
        comm.deregister_buffer(held)?;
        assert_eq!(waiting.join().expect("no panic"), 0, "deregistered too early");
        assert_eq!(count(ncclCommDeregister), 1);
        comm.finish()
    });
}

/// Across a network NCCL sends plain memory in place, so it is registered only if all ranks'
/// transfers use registered memory.
#[test]
fn plain_memory() {
    on(NEWEST, || {
        let mut comm = alone()?;
        let plain = comm.device().zeros::<i32>(50)?;
        let start = address(comm.stream(), &plain)?;
        let held = comm.register_buffer(&plain.slice(10..30))?;
        assert!(held.handle().is_some());
        let [call] = &calls(ncclCommRegister)[..] else { panic!("one call") };
        assert_eq!((call.pointer("buff") as u64, call.int("size")), (start + 40, 80));
        comm.deregister_buffer(held)?;
        // Nothing of it.
        assert_eq!(comm.register_buffer(&plain.slice(3..3))?.handle(), None);
        let outcome = comm.register_buffer(&plain.slice(40..60));
        assert_error!(outcome.map(drop), BadRange, "the range 40..60 reaches past a buffer of 50");
        assert_eq!((count(ncclCommRegister), count(ncclCommDeregister)), (1, 1));
        comm.finish()
    });
    on(release("2.18.5"), || {
        let mut comm = alone()?;
        let x = comm.device().nccl_zeros::<i32>(50);
        if let Ok(x) = x {
            let outcome = comm.register_buffer(&x).map(drop);
            assert_error!(outcome, Unsupported, "registering a buffer (ncclCommRegister)");
        }
        comm.finish()
    });
}

/// Collectives also choose their algorithm by registered memory, each rank for itself.
#[test]
fn a_collective_with_one_side_that_is_registered() {
    on(NEWEST, || {
        let told = Cuda::spmd(2, |place| {
            let mut comm = connect(place, 10_000)?;
            let mut x = comm.device().nccl_zeros::<f32>(8)?;
            if comm.rank().index() == 0 {
                let _kept = comm.register_buffer(&x)?;
            }
            comm.all_reduce_in_place(&mut x, Sum)?;
            Ok::<_, Error>(comm.finish().expect_err("they differ").to_string())
        })?;
        for told in told {
            let both = "rank 0: both sides in windows or registered, rank 1: neither";
            assert!(told.contains(both), "{told}");
        }
        Ok(())
    });
}

/// NCCL registers whole pages, so that it takes a part for registered if its neighbour is.
#[test]
fn a_part_beside_one_that_is_registered() {
    on(NEWEST, || {
        for (cut, differ) in [(8, true), (1024, false)] {
            let told = Cuda::spmd(2, |place| {
                let mut comm = connect(place, 10_000)?;
                let (known, mut x) = comm.device().nccl_zeros::<f32>(cut + 8)?.split_at(cut)?;
                if comm.rank().index() == 0 {
                    let _kept = comm.register_buffer(&known)?;
                }
                comm.all_reduce_in_place(&mut x, Sum)?;
                Ok::<_, Error>(comm.finish().err().map(|error| error.to_string()))
            })?;
            for told in told {
                let both = "rank 0: both sides in windows or registered, rank 1: neither";
                assert_eq!(told.is_some_and(|told| told.contains(both)), differ, "{cut}");
            }
        }
        Ok(())
    });
}

/// Gather and scatter are transfers between the root's memory and the others' parts.
#[test]
fn a_gather_with_one_side_that_is_registered() {
    on(NEWEST, || {
        for known in [[true, true], [true, false], [false, true]] {
            let told = Cuda::spmd(2, |place| {
                let mut comm = connect(place, 10_000)?;
                let rank = comm.rank().index();
                let mut x = comm.device().nccl_zeros::<f32>(16)?;
                if known[rank] {
                    let _kept = comm.register_buffer(&x)?;
                }
                let blocks = if rank == 1 { 0..16 } else { 0..8 };
                comm.gather_in_place(&mut x.slice_mut(blocks), 1)?;
                Ok::<_, Error>(comm.finish().is_err())
            })?;
            assert_eq!(told, [false; 2], "they name addresses that NCCL does not know");
        }
        Ok(())
    });
}
