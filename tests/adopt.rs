//! Memory owned by the program, on the host: adopted, lent, and by address.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;
use std::{mem, thread};

use typed_nccl::{
    Adopted, AnyDevice, Buffer, CommConfig, Communicator, Error, ForeignMemory, Host, Result, Seat,
    Sum,
};

use crate::ranks;
use crate::watched::watched;

type Dev = Host<AnyDevice>;

#[track_caller]
fn says(error: &Error, parts: &[&str]) {
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "`{part}` is missing in: {text}");
    }
}

/// A vector that records its drop, and uses the library while it is dropped.
struct Noted(Vec<f32>, Arc<AtomicUsize>);

// SAFETY: the vector's own elements; nobody else touches them.
unsafe impl<Tag> ForeignMemory<Host<Tag>> for Noted {
    type Elem = f32;

    fn start(&mut self) -> *mut f32 {
        self.0.as_mut_ptr()
    }

    fn elements(&self) -> usize {
        self.0.len()
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        // Hangs if a lock of the library is held.
        let stream = Dev::any(0).and_then(|device| device.stream()).expect("a stream");
        drop(stream);
        self.1.fetch_add(1, SeqCst);
    }
}

#[test]
fn adopted_memory_is_an_operand_and_comes_back_at_its_address() {
    watched(|| {
        Host::spmd(2, |place| {
            let comm = place.init()?;
            let device = comm.device().clone();
            let mine = vec![comm.rank().index() as f32 + 1.0; 1000];
            let boxed = vec![5.0_f32; 1000].into_boxed_slice();
            let (at, boxed_at) = (mine.as_ptr(), boxed.as_ptr());
            let (x, mut y) = (device.adopt(mine)?, device.adopt(boxed)?);
            comm.all_reduce(&x, &mut y, Sum)?;
            comm.all_reduce_in_place(&mut y.slice_mut(0..10), Sum)?;
            comm.stream().launch(&mut y, |y, ()| y[999] = -1.0)?;
            assert_eq!(y.to_vec()?[..11], [[6.0; 10].as_slice(), &[3.0]].concat());
            let (mine, boxed): (Vec<f32>, Box<[f32]>) = (x.into_inner()?, y.into_inner()?);
            assert_eq!((mine.as_ptr(), boxed.as_ptr()), (at, boxed_at), "nothing is copied");
            assert_eq!((boxed[0], boxed[10], boxed[999]), (6.0, 3.0, -1.0));
            comm.finish()
        })
        .map(drop)
    });
}

#[test]
fn an_owner_comes_back_when_its_memory_is_not_used_any_more() {
    watched(|| {
        let device = Dev::any(0)?;
        let (stream, other) = (device.stream()?, device.stream()?);
        let mut x = device.adopt(vec![0.0_f32; 10])?;
        let (begins, begun) = channel();
        let (opens, open) = channel::<()>();
        stream.launch(&mut x, move |x, ()| {
            begins.send(()).expect("heard");
            open.recv().expect("opened");
            x.fill(1.0);
        })?;
        begun.recv().expect("it runs");
        // Other work enqueued on another stream is not waited for.
        let (lets_go, held) = channel::<()>();
        other.launch((), move |(), ()| assert!(held.recv().is_ok()))?;
        let opener = thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            opens.send(()).expect("heard");
        });
        let back = x.into_inner()?;
        assert_eq!(back, [1.0; 10], "it was waited for");
        opener.join().expect("no panic");
        lets_go.send(()).expect("heard");
        other.sync()
    });
}

#[test]
fn an_owner_lives_until_the_last_use_is_over() {
    watched(|| {
        let device = Dev::any(0)?;
        let stream = device.stream()?;
        let drops = Arc::new(AtomicUsize::new(0));
        let mut x = device.adopt(Noted(vec![0.0; 10], drops.clone()))?;
        let (opens, open) = channel::<()>();
        let (tells, told) = channel();
        stream.launch(&mut x, move |x, ()| {
            open.recv().expect("opened");
            x.fill(1.0);
            tells.send(x[9]).expect("heard");
        })?;
        drop(x);
        assert_eq!(drops.load(SeqCst), 0, "it is in use");
        opens.send(()).expect("heard");
        assert_eq!(told.recv().expect("it ran"), 1.0);
        stream.sync()?;
        while drops.load(SeqCst) == 0 {
            thread::sleep(Duration::from_millis(1));
        }
        // Dropped at once if nothing uses it, but not if it was given back.
        drop(device.adopt(Noted(vec![0.0], drops.clone()))?);
        assert_eq!(drops.load(SeqCst), 2);
        let back = device.adopt(Noted(vec![0.0], drops.clone()))?.into_inner()?;
        assert_eq!(drops.load(SeqCst), 2);
        drop(back);
        // Also as a buffer whose type is a value.
        drop(device.adopt(Noted(vec![0.0], drops.clone()))?.into_dyn());
        assert_eq!(drops.load(SeqCst), 4);
        Ok(())
    });
}

/// A vector whose drop waits for a message.
struct Waiting(Vec<f32>, Mutex<Receiver<()>>, Sender<bool>);

// SAFETY: the vector's own elements; nobody else touches them.
unsafe impl<Tag> ForeignMemory<Host<Tag>> for Waiting {
    type Elem = f32;

    fn start(&mut self) -> *mut f32 {
        self.0.as_mut_ptr()
    }

    fn elements(&self) -> usize {
        self.0.len()
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let came = self.1.lock().map(|from| from.recv_timeout(Duration::from_secs(20)));
        let _ = self.2.send(matches!(came, Ok(Ok(()))));
    }
}

#[test]
fn an_owners_drop_may_wait_for_the_streams_next_closure() {
    watched(|| {
        let device = Dev::any(0)?;
        let stream = device.stream()?;
        let ((sends, sent), (tells, told), (opens, open)) = (channel(), channel(), channel::<()>());
        // Too much to be copied by the thread that enqueues it.
        let x = device.adopt(Waiting(vec![1.0; 1 << 20], Mutex::new(sent), tells))?;
        let mut y = device.zeros::<f32>(1 << 20)?;
        stream.launch((), move |(), ()| assert!(open.recv().is_ok()))?;
        stream.copy(&x, &mut y)?;
        stream.launch((), move |(), ()| assert!(sends.send(()).is_ok()))?;
        drop(x);
        opens.send(()).expect("heard");
        assert!(told.recv().expect("dropped"), "the closure ran while the owner waited for it");
        stream.sync()
    });
}

/// Owners whose drop takes the library's locks, wherever the last use of their memory ends.
#[test]
fn no_owner_is_dropped_under_a_lock() {
    let drops = Arc::new(AtomicUsize::new(0));
    let made = Arc::new(AtomicUsize::new(0));
    let (dropped, all) = (drops.clone(), made.clone());
    let together = Barrier::new(2);
    watched(move || {
        let job = &|mut comm: Communicator<Dev>| -> Result<()> {
            let (device, rank) = (comm.device().clone(), comm.rank().index());
            let new = || {
                made.fetch_add(1, SeqCst);
                device.adopt(Noted(vec![1.0; 8], drops.clone()))
            };
            for late in 0..2 {
                let (x, mut y, mut z) = (new()?, new()?, new()?);
                if rank == late {
                    thread::sleep(Duration::from_millis(5));
                }
                comm.all_reduce(&x, &mut y, Sum)?;
                let (next, previous) = (comm.ring(1), comm.ring(-1));
                comm.group(|g| {
                    g.send(&x, next)?;
                    g.recv(&mut z, previous)
                })?;
                // Only the queues hold them.
                drop((x, y, z));
            }
            let (x, mut y) = (new()?, new()?);
            let stream = device.stream()?;
            stream.launch((), |(), ()| thread::sleep(Duration::from_millis(5)))?;
            stream.copy(&x, &mut y)?;
            stream.fill(&mut y, 1.0)?;
            drop((x, y, stream));

            let (scalar, registered, mut x) = (new()?, new()?, new()?);
            let _still = comm.register_buffer(&registered)?;
            let times = comm.pre_mul_sum_device(scalar)?;
            comm.all_reduce_in_place(&mut x, &times)?;
            drop((x, times, registered));

            // One of them differs: both are refused, with the operations they had enqueued.
            together.wait();
            let (mut x, mut y) = (new()?, new()?);
            let _ = comm.all_reduce_in_place(&mut x.slice_mut(0..8 - rank), Sum);
            let _ = comm.all_reduce_in_place(&mut y, Sum);
            drop((x, y));
            drop(comm.abort());
            Ok(())
        };
        thread::scope(|scope| {
            let ranks = (0..).zip(Seat::local(2)).map(|(ordinal, seat)| {
                scope.spawn(move || job(connect(seat, Dev::any(ordinal)?, 10_000)?))
            });
            let ranks: Vec<_> = ranks.collect();
            ranks.into_iter().try_for_each(|rank| rank.join().expect("no panic"))
        })
    });
    while dropped.load(SeqCst) < all.load(SeqCst) {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Connects, and then has a deadline in milliseconds.
fn connect(seat: Seat, device: Dev, milliseconds: u64) -> Result<Communicator<Dev>> {
    let config = CommConfig::builder().deadline(Duration::from_millis(milliseconds)).build();
    ranks::connect(Communicator::builder().seat(seat).device(device).config(config).build())
}

/// Rank 0 runs `body`; rank 1 is present and makes no call until that is over.
fn beside_a_silent_rank(body: impl Fn(Communicator<Dev>) -> Result<()> + Send + Sync + 'static) {
    watched(move || {
        let together = Barrier::new(2);
        thread::scope(|scope| {
            let ranks = (0..).zip(Seat::local(2)).map(|(ordinal, seat)| {
                let (together, body) = (&together, &body);
                scope.spawn(move || {
                    let comm = connect(seat, Dev::any(ordinal)?, 200)?;
                    together.wait();
                    if ordinal == 0 {
                        let outcome = body(comm);
                        together.wait();
                        return outcome;
                    }
                    together.wait();
                    drop(comm);
                    Ok(())
                })
            });
            let ranks: Vec<_> = ranks.collect();
            ranks.into_iter().try_for_each(|rank| rank.join().expect("no panic"))
        })
    });
}

#[test]
fn a_deadline_gives_the_buffer_back() {
    beside_a_silent_rank(|comm| {
        let mut x = comm.device().adopt(vec![1.0_f32; 4])?;
        comm.all_reduce_in_place(&mut x, Sum)?;
        let failed = x.into_inner().expect_err("the other rank does not come");
        assert!(matches!(failed.error, Error::Timeout(_)), "{failed}");
        drop(comm.abort());
        let failed = failed.value.into_inner().expect_err("the sum never came");
        assert!(failed.error.is_fatal(), "{failed}");
        assert_eq!(failed.value.into_inner()?.len(), 4, "again, when it is known");
        Ok(())
    });
}

#[test]
fn what_is_lent_is_not_used_when_the_call_returns() {
    beside_a_silent_rank(|comm| {
        let mut mine = vec![1.0_f32; 4];
        let outcome = comm.device().lend(&mut mine, |x| comm.all_reduce_in_place(x, Sum));
        assert!(matches!(outcome, Err(Error::Timeout(_))), "{outcome:?}");
        mine.fill(2.0);
        drop(comm);
        assert_eq!(mine, [2.0; 4]);
        Ok(())
    });
}

#[test]
fn slices_are_lent_to_operations() {
    watched(|| {
        Host::spmd(2, |place| {
            let comm = place.init()?;
            let device = comm.device();
            let x = [comm.rank().index() as i32 + 1; 8];
            let mut y = vec![0; 8];
            let n = device.lend((&x[..4], &mut y[2..6]), |(x, y)| {
                comm.all_reduce(&*x, y, Sum)?;
                Ok(x.len())
            })?;
            assert_eq!((n, y.as_slice()), (4, [0, 0, 3, 3, 3, 3, 0, 0].as_slice()));
            device.lend(&mut y, |y| {
                let [mut head, mut tail] = y.reborrow().into_parts([2, 6]);
                comm.broadcast_in_place(&mut tail, 0)?;
                comm.stream().launch((&mut head, &tail), |(head, tail), ()| head[0] = tail[0])
            })?;
            assert_eq!(y[..3], [3, 0, 3]);
            // Empty memory can be lent too.
            device.lend((&x[..0], &mut y[..0]), |(x, y)| comm.all_reduce(x, y, Sum))?;
            comm.finish()
        })
        .map(drop)
    });
}

#[test]
fn a_panic_ends_a_loan_too() {
    watched(|| {
        let device = Dev::any(0)?;
        let stream = device.stream()?;
        let mut x = vec![0_u8; 4];
        let (opens, open) = channel::<()>();
        let opener = thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            opens.send(()).expect("heard");
        });
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            device.lend(&mut x, |x| -> Result<()> {
                stream.launch(x, move |x, ()| {
                    open.recv().expect("opened");
                    x.fill(7);
                })?;
                std::panic::resume_unwind(Box::new("a test"));
            })
        }));
        assert!(panicked.is_err());
        assert_eq!(mem::take(&mut x), [7; 4], "it was waited for");
        opener.join().expect("no panic");
        Ok(())
    });
}

#[test]
fn a_loan_in_a_launched_closure_is_refused() {
    watched(|| {
        let device = Dev::any(0)?;
        let stream = device.stream()?;
        let (tells, told) = channel();
        let inner = device.clone();
        stream.launch((), move |(), ()| {
            let outcome = inner.lend(&mut [1_u8][..], |_| Ok(()));
            tells.send(outcome).expect("heard");
        })?;
        let outcome = told.recv().expect("it ran");
        assert!(matches!(outcome, Err(Error::WaitInLaunch(_))), "{outcome:?}");
        stream.sync()
    });
}

#[test]
fn memory_that_cannot_be_used_is_named() {
    watched(|| {
        let device = Dev::any(0)?;
        let failed = device.adopt(Vec::<f32>::with_capacity(9)).expect_err("no elements");
        says(&failed.error, &["adopt", "no elements", "tests/adopt.rs"]);
        assert_eq!(failed.value.capacity(), 9, "the owner comes back");

        let mut bytes = [0_u32; 4];
        let odd = bytes.as_mut_ptr().wrapping_byte_add(1);
        // SAFETY: the request is refused.
        let outcome = unsafe { Buffer::from_raw(&device, odd, 2) };
        says(&outcome.expect_err("misaligned"), &["from_raw", "no multiple of 4", "u32"]);
        // SAFETY: as above.
        let outcome = unsafe { Buffer::<f32, _, _>::from_raw(&device, std::ptr::null_mut(), 2) };
        says(&outcome.expect_err("null"), &["the address is null"]);
        // SAFETY: as above.
        let outcome = unsafe { Buffer::from_raw(&device, bytes.as_mut_ptr(), 0) };
        says(&outcome.expect_err("empty"), &["no elements"]);
        // SAFETY: as above.
        let outcome =
            unsafe { Buffer::from_raw_owned(&device, bytes.as_mut_ptr(), usize::MAX, "owner") };
        let failed = outcome.expect_err("too long");
        says(&failed.error, &["more bytes than memory can have"]);
        assert_eq!(failed.value, "owner");
        Ok(())
    });
}

#[test]
fn lent_memory_is_not_registered() {
    watched(|| {
        let mut comm = connect(Seat::local(1).remove(0), Dev::any(0)?, 10_000)?;
        let device = comm.device().clone();
        let mut mine = vec![1.0_f32; 8];
        let outcomes = [
            device.lend(&mine, |x| comm.register_buffer(x)).map(drop),
            device.lend(&mine[..0], |x| comm.register_buffer(x)).map(drop),
            device.lend(&mut mine, |x| comm.register_buffer(&x.as_slice())).map(drop),
        ];
        for outcome in outcomes {
            let error = outcome.expect_err("it is lent");
            assert!(matches!(error, Error::NotAdoptable(_)), "{error}");
            says(&error, &["register_buffer", "lent", "`device.adopt(owner)`", "tests/adopt.rs"]);
        }
        comm.finish()
    });
}

#[test]
fn registered_memory_is_not_given_back() {
    watched(|| {
        let refused = |x: Buffer<f32, Dev, Adopted<Vec<f32>>>| {
            let failed = x.into_inner().expect_err("it is registered");
            assert!(matches!(failed.error, Error::NotAdoptable(_)), "{failed}");
            says(&failed.error, &["into_inner", "registered", "deregister_buffer"]);
            failed.value
        };
        for end in 0..4 {
            let mut comm = connect(Seat::local(1).remove(0), Dev::any(0)?, 10_000)?;
            let mut x = comm.device().adopt(vec![1.0_f32; 8])?;
            let [all, part] = [comm.register_buffer(&x)?, comm.register_buffer(&x.slice(2..4))?];
            comm.all_reduce_in_place(&mut x, Sum)?;
            let x = refused(x);
            comm.deregister_buffer(part)?;
            let x = refused(x);
            match end {
                0 => comm.deregister_buffer(all)?,
                1 => comm.finish()?,
                2 => drop(comm.abort()),
                _ => drop(comm),
            }
            assert_eq!(x.into_inner()?, [1.0; 8]);
        }
        Ok(())
    });
}

#[test]
fn memory_by_address() {
    watched(|| {
        let device = Dev::any(0)?;
        let stream = device.stream()?;
        let mut values = [1.0_f64, 2.0, 3.0];
        // SAFETY: the values stay, and are read only after the buffer has been given back.
        let mut x: Buffer<f64, Dev, Adopted<()>> =
            unsafe { Buffer::from_raw(&device, values.as_mut_ptr(), 3) }?;
        stream.launch(&mut x, |x, ()| x.reverse())?;
        x.into_inner()?;
        assert_eq!(values, [3.0, 2.0, 1.0]);
        let mut owner = vec![1_u8; 3];
        let start = owner.as_mut_ptr();
        // SAFETY: the vector keeps the elements.
        let mut x = unsafe { Buffer::from_raw_owned(&device, start, 3, owner) }?;
        stream.fill(&mut x.slice_mut(1..2), 9)?;
        assert_eq!(x.into_inner()?, [1, 9, 1]);
        Ok(())
    });
}

#[test]
fn fills_and_copies_of_every_size() {
    watched(|| {
        let device = Dev::any(0)?;
        let (stream, other) = (device.stream()?, device.stream()?);
        macro_rules! of {
            ($($value:expr),+) => { $({
                let value = $value;
                let mut x = device.zeros(5)?;
                stream.fill(&mut x.slice_mut(1..4), value)?;
                let mut y = device.zeros(3)?;
                // Another stream's use waits for the first one's.
                other.copy(&x.slice(2..5), &mut y)?;
                assert_eq!(y.to_vec()?, [value, value, Default::default()]);
            })+ };
        }
        of!(1_u8, -2_i8, 3_u32, -4.5_f32, 5_i64, -6.25_f64, typed_nccl::f16::from_f32(1.5));
        // Within one buffer.
        let mut x = device.from_slice(&[1, 2, 3, 4])?;
        let [from, mut to] = x.parts_mut([2, 2]);
        stream.copy(&from, &mut to)?;
        assert_eq!(x.to_vec()?, [1, 2, 1, 2]);
        let mut short = device.zeros::<i32>(3)?;
        let outcome = stream.copy(&x, &mut short);
        says(&outcome.expect_err("lengths"), &["copy", "3", "4", "of what is copied"]);
        let mut elsewhere = Dev::any(1)?.zeros::<i32>(4)?;
        for outcome in [stream.copy(&x, &mut elsewhere), stream.fill(&mut elsewhere, 1)] {
            assert!(matches!(outcome, Err(Error::OtherDevice(_))), "{outcome:?}");
        }
        Ok(())
    });
}
