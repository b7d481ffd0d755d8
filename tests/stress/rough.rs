//! Plays acts on the library.

use std::any::Any;
use std::collections::VecDeque;
use std::mem::replace;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use typed_nccl::{Buffer, Communicator, Copying, Failed, Host, Result, Sum, tag};

use super::act::{Act, Bad, Fate, Panics, blended, uploaded};
use super::calm::{PLANNED, calm};
use super::claims::{Claim, fault, hold};
use super::device::Dev;
use super::draw::windows;
use super::rank::Rank;
use super::step::Shape;
use super::store::{Comm, Queue, Store};

tag!(Kid);

/// Panics on purpose: without a message on standard error, each with a number.
fn planned() -> ! {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    resume_unwind(Box::new(format!("{PLANNED}{}", NEXT.fetch_add(1, Ordering::Relaxed))))
}

/// So many values are leaked at a time. Each stream has a line in all clocks of the check of order.
const FORGOTTEN: usize = 256;

/// Leaks a value, until so many others are leaked that its program is most likely over. It stays
/// reachable, so that leak checkers only report others.
fn forget(value: impl Send + 'static) {
    static ALL: Mutex<VecDeque<Box<dyn Any + Send>>> = Mutex::new(VecDeque::new());
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    all.push_back(Box::new(value));
    let oldest = if all.len() > FORGOTTEN { all.pop_front() } else { None };
    drop(all);
    drop(oldest);
}

/// Resources that acts need beside those of steps.
pub(crate) struct Rough {
    shape: Shape,
    rank: usize,
    /// Memory of a device that no rank has.
    elsewhere: Buffer<u32, Dev>,
    here: Buffer<u32, Dev>,
    /// With the expected contents of a download.
    copies: Vec<(Copying<u32, Dev>, Option<Vec<u32>>)>,
}

impl Rough {
    pub(crate) fn new(rank: &Rank) -> Result<Self> {
        let elsewhere = Host::any(1000 + rank.index as u32)?;
        Ok(Self {
            shape: rank.shape,
            rank: rank.index,
            elsewhere: elsewhere.zeros(4)?,
            here: rank.device.zeros(4)?,
            copies: Vec::new(),
        })
    }

    /// Plays an act; `expected` is the contents of a store that it reads.
    pub(crate) fn act(
        &mut self,
        rank: &mut Rank,
        act: &Act,
        expected: Option<&[u32]>,
    ) -> Result<()> {
        match *act {
            Act::Step(ref step) => rank.step(step, expected),
            Act::Blend { stream, reads: [a, b], writes: [c, d], panics } => {
                let stores = rank.stores.get_disjoint_mut([a, b, c, d]).expect("four stores");
                blend(&rank.streams[stream], stores, panics)?;
                match panics {
                    // What follows a panic is refused until a host wait has told of it.
                    Panics::AtFirst | Panics::AtLast if self.shape.ranks > 1 => {
                        calm(|| rank.streams[stream].sync())
                    }
                    _ => Ok(()),
                }
            }
            Act::Refused { stream, ref good, bad, is_last } => {
                self.refused(rank, stream, good, bad, is_last)
            }
            Act::Readers { store, streams } => readers(rank, store, streams),
            Act::Upload { stream, store, value } => {
                let mut pinned = rank.device.pinned(self.shape.size())?;
                let values = uploaded(self.shape, self.rank, value);
                pinned.as_mut_slice().copy_from_slice(&values);
                let to = &mut rank.stores[store].all_mut();
                let copying = rank.streams[stream].upload(pinned, to).map_err(gone)?;
                self.copies.push((copying, None));
                Ok(())
            }
            Act::Download { stream, store } => {
                let pinned = rank.device.pinned(self.shape.size())?;
                let from = &rank.stores[store].slice(0..self.shape.size());
                let copying = rank.streams[stream].download(from, pinned).map_err(gone)?;
                self.copies.push((copying, expected.map(<[u32]>::to_vec)));
                Ok(())
            }
            Act::Copied(fate) => self.copied(fate),
            Act::Forget { stream } => {
                forget(rank.streams[stream].mark()?);
                forget(replace(&mut rank.streams[stream], rank.device.stream()?));
                Ok(())
            }
            Act::Child { comm, store, ref colors, shared, times, end } => {
                let color = colors[self.rank];
                let comm = rank.comms[comm].as_mut().expect("alive");
                let x = &mut rank.stores[store];
                let len = Act::child_len(self.shape);
                match shared {
                    true => sum_shared(comm, color, x, len, times, end),
                    false => sum_children(comm, color, x, len, times, end),
                }
            }
            Act::Rewindow { comm, window, closed } => {
                let store = windows(comm).start + window;
                self.rewindow(rank, comm, store, closed)
            }
        }
    }

    fn refused(
        &self,
        rank: &mut Rank,
        stream: usize,
        good: &[usize],
        bad: Bad,
        is_last: bool,
    ) -> Result<()> {
        let all = self.shape.size();
        let bad = match bad {
            Bad::OtherDevice => self.elsewhere.all(),
            Bad::PastTheEnd => self.here.slice(3..5),
        };
        let stream = &rank.streams[stream];
        let never = || fault("a launch that was refused ran");
        let outcome = match *good {
            [] => stream.launch(bad, move |_, ()| never()),
            [a] => {
                let mut a = rank.stores[a].all_mut();
                match is_last {
                    true => stream.launch((&mut a, &bad), move |_, ()| never()),
                    false => stream.launch((&bad, &mut a), move |_, ()| never()),
                }
            }
            [a, b] => {
                let [a, b] = rank.stores.get_disjoint_mut([a, b]).expect("two stores");
                let (mut a, b) = (a.all_mut(), b.slice(0..all));
                match is_last {
                    true => stream.launch((&mut a, &b, &bad), move |_, ()| never()),
                    false => stream.launch((&mut a, &bad, &b), move |_, ()| never()),
                }
            }
            [a, b, c, ..] => {
                let [a, b, c] = rank.stores.get_disjoint_mut([a, b, c]).expect("three stores");
                let (mut a, b, mut c) = (a.all_mut(), b.slice(0..all), c.all_mut());
                match is_last {
                    true => stream.launch((&mut a, &b, &mut c, &bad), move |_, ()| never()),
                    false => stream.launch((&b, &mut c, &bad, &mut a), move |_, ()| never()),
                }
            }
        };
        match outcome {
            Err(error) if error.is_refusal() => Ok(()),
            Ok(()) => panic!("not refused"),
            Err(error) => Err(error),
        }
    }

    fn copied(&mut self, fate: Fate) -> Result<()> {
        if self.copies.is_empty() {
            return Ok(());
        }
        let (copying, expected) = self.copies.remove(0);
        match fate {
            Fate::Awaited => awaited(copying, expected),
            Fate::Dropped => Ok(()),
            Fate::Forgotten => {
                forget(copying);
                Ok(())
            }
        }
    }

    fn rewindow(&self, rank: &mut Rank, comm: usize, store: usize, closed: bool) -> Result<()> {
        let comm = rank.comms[comm].as_mut().expect("alive");
        let nothing = Store::Buffer(rank.device.zeros(0)?);
        let old = replace(&mut rank.stores[store], nothing);
        if let (Store::Window(window), true) = (old, closed) {
            drop(calm_with(window, |window| comm.try_close(window))?);
        }
        // Registering waits for the communicator's stream, and cannot be retried.
        calm(|| comm.sync(comm.stream()))?;
        rank.stores[store] = Store::Window(comm.window(self.shape.size())?);
        Ok(())
    }
}

/// Repeats a transition that gives its value back, until it reports no more planned panics.
pub(crate) fn calm_with<T, R>(
    value: T,
    mut transition: impl FnMut(T) -> Result<R, Failed<T>>,
) -> Result<R> {
    let mut value = Some(value);
    calm(|| {
        transition(value.take().expect("it comes back")).map_err(|failed| {
            value = Some(failed.value);
            failed.error
        })
    })
}

fn gone<T>(failed: Failed<T>) -> typed_nccl::Error {
    failed.error
}

fn awaited(copying: Copying<u32, Dev>, expected: Option<Vec<u32>>) -> Result<()> {
    let pinned = calm_with(copying, Copying::wait)?;
    if let Some(expected) = expected {
        assert!(pinned.as_slice() == expected, "a download differs");
    }
    Ok(())
}

fn blend(stream: &Queue, [a, b, c, d]: [&mut Store; 4], panics: Panics) -> Result<()> {
    let (mut c, mut d) = (c.all_mut(), d.all_mut());
    let (a, b) = (a.slice(0..c.len()), b.slice(0..c.len()));
    stream.launch((&a, &mut c, &b, &mut d), move |(a, c, b, d), ()| {
        let parts = [Claim::read(a), Claim::read(b), Claim::write(c), Claim::write(d)];
        let _held = hold(parts);
        if panics == Panics::AtFirst {
            planned();
        }
        blended([a, b], [c, d]);
        if panics == Panics::AtLast {
            planned();
        }
    })
}

fn readers(rank: &Rank, store: usize, streams: usize) -> Result<()> {
    let x = rank.stores[store].slice(0..rank.shape.size());
    for _ in 0..streams {
        rank.device.stream()?.launch(x, |x, ()| drop(hold([Claim::read(x)])))?;
    }
    Ok(())
}

fn ended<T>(end: Fate, value: T, finish: impl FnOnce(T) -> Result<()>) -> Result<()> {
    match end {
        Fate::Awaited => finish(value),
        Fate::Dropped | Fate::Forgotten => Ok(()),
    }
}

/// Two children that outlive each other, used alternately.
fn sum_children(
    comm: &mut Comm,
    color: u32,
    x: &mut Store,
    len: usize,
    times: usize,
    end: Fate,
) -> Result<()> {
    let one: Communicator<Kid<Dev>> = comm.split::<Kid>(color, 0)?;
    let two: Communicator<Kid<Dev>> = comm.split::<Kid>(color, 0)?;
    for turn in 0..times {
        let child = if turn % 2 == 0 { &one } else { &two };
        child.all_reduce_in_place(&mut x.slice_mut(0..len), Sum)?;
    }
    ended(end, one, finish)?;
    ended(end, two, finish)
}

fn finish(comm: Communicator<Kid<Dev>>) -> Result<()> {
    calm_with(comm, Communicator::try_finish).map(drop)
}

fn sum_shared(
    comm: &mut Comm,
    color: u32,
    x: &mut Store,
    len: usize,
    times: usize,
    end: Fate,
) -> Result<()> {
    let child = comm.split_shared::<Kid>(color, 0)?;
    for _ in 0..times {
        child.all_reduce_in_place(&mut x.slice_mut(0..len), Sum)?;
    }
    // The wait reports earlier panics, so that the end reports none.
    calm(|| child.sync(child.stream()))?;
    ended(end, child, |child| calm_end(child.finish()))
}

/// Ending a shared child cannot be retried.
fn calm_end(outcome: Result<()>) -> Result<()> {
    let mut outcome = Some(outcome);
    calm(|| outcome.take().unwrap_or(Ok(())))
}
