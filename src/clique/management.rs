//! Management calls of a clique, in which every rank waits for the others. Each rank makes its call
//! on a temporary thread; local calls run one rank after the other.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::thread::{Builder, scope};

use super::{Clique, PerRank};
use crate::communicator::{AsksForAPart, SplitNumber as _, color_of};
use crate::error::{Abort, Error, Failed, Site};
use crate::p2p::{BlockLen, block_len};
use crate::{
    AbortHandle, Blocks, Buffer, Communicator, Device, Element, Label, NcclMem, Numeric, PreMulSum,
    Rank, Readable, Registration, Result, SignalSlot, Splits, Window, WindowKind, WindowMemory,
    World, wait,
};

impl<W: World> Clique<W> {
    /// A zeroed symmetric window of `len` elements on every rank; see [`Communicator::window`]. The
    /// host waits.
    ///
    /// # Errors
    /// As [`Communicator::window`].
    #[track_caller]
    pub fn window<T: Element>(&mut self, len: usize) -> Result<PerRank<Window<T, W>>> {
        let site = Site::caller();
        let mut buffers = Vec::with_capacity(self.size());
        for member in &self.members {
            buffers.push(member.device().nccl_zeros::<T>(len)?);
        }
        let windows = self.at_once("window", site, buffers.iter_mut(), |member, buffer| {
            member.register_at(buffer, false, site)
        });
        Ok(self.of_ranks(windows?))
    }

    /// Registers every rank's buffer of NCCL memory as a window of `kind`; lengths may differ by
    /// rank. See [`Communicator::register_window_as`]. The host waits.
    ///
    /// # Errors
    /// As [`Communicator::register_window_as`], with the buffers; a [`PerRank`] of another clique.
    #[track_caller]
    pub fn register_window<T: Element, M: WindowMemory + Send, K: WindowKind>(
        &mut self,
        mut buffers: PerRank<Buffer<T, W::Device, M>>,
        _kind: K,
    ) -> Result<PerRank<Window<T, W, K>>, Failed<PerRank<Buffer<T, W::Device, M>>>> {
        let site = Site::caller();
        let lens = buffers.items().iter().map(Buffer::len);
        let uneven = lens.clone().min() != lens.max();
        let windows = self.same_clique(Some(buffers.clique()), site).and_then(|()| {
            self.at_once(
                "register_window",
                site,
                buffers.items_mut().iter_mut(),
                |member, buffer| member.register_at(buffer, uneven, site),
            )
        });
        match windows {
            Ok(windows) => Ok(self.of_ranks(windows)),
            Err(error) => Err(Failed { error, value: buffers }),
        }
    }

    /// Deregisters every rank's window and gives the memory back; see [`Communicator::close`]. The
    /// host waits.
    ///
    /// # Errors
    /// As [`Communicator::close`], with the windows; a [`PerRank`] of another clique.
    #[track_caller]
    pub fn close<T: Element, K: WindowKind>(
        &mut self,
        mut windows: PerRank<Window<T, W, K>>,
    ) -> Result<PerRank<Buffer<T, W::Device, NcclMem>>, Failed<PerRank<Window<T, W, K>>>> {
        let site = Site::caller();
        let closed = self.same_clique(Some(windows.clique()), site).and_then(|()| {
            self.at_once("close", site, windows.items_mut().iter_mut(), |member, window| {
                member.close_at(window, site)
            })
        });
        match closed {
            Ok(_) => {
                let buffers = windows.into_vec().into_iter().map(Window::into_buffer).collect();
                Ok(self.of_ranks(buffers))
            }
            Err(error) => Err(Failed { error, value: windows }),
        }
    }

    /// Registers every rank's memory; see [`Communicator::register_buffer`]. Local.
    ///
    /// # Errors
    /// As [`Communicator::register_buffer`]; a [`PerRank`] of another clique.
    #[track_caller]
    pub fn register_buffer<A: Readable<W::Device>>(
        &mut self,
        memory: &PerRank<A>,
    ) -> Result<PerRank<Registration<W>>> {
        self.same_clique(Some(memory.clique()), Site::caller())?;
        let mut registered = Vec::with_capacity(self.size());
        for (member, memory) in self.members.iter_mut().zip(memory.items()) {
            registered.push(member.register_buffer(memory)?);
        }
        Ok(self.of_ranks(registered))
    }

    /// Ends every rank's registration; see [`Communicator::deregister_buffer`]. Local.
    ///
    /// # Errors
    /// As [`Communicator::deregister_buffer`]; a [`PerRank`] of another clique.
    #[track_caller]
    pub fn deregister_buffer(&mut self, registrations: PerRank<Registration<W>>) -> Result<()> {
        self.same_clique(Some(registrations.clique()), Site::caller())?;
        for (member, registration) in self.members.iter_mut().zip(registrations.into_vec()) {
            member.deregister_buffer(registration)?;
        }
        Ok(())
    }

    /// An operator on every rank that multiplies elements by that rank's scalar and sums them; see
    /// [`Communicator::pre_mul_sum`]. Local.
    ///
    /// # Errors
    /// As [`Communicator::pre_mul_sum`].
    #[track_caller]
    pub fn pre_mul_sum<T: Numeric>(
        &mut self,
        mut scalar: impl FnMut(Rank) -> T,
    ) -> Result<PerRank<PreMulSum<T, W>>> {
        let mut made = Vec::with_capacity(self.size());
        for member in &mut self.members {
            made.push(member.pre_mul_sum(scalar(member.rank()))?);
        }
        Ok(self.of_ranks(made))
    }

    /// Signal `index` of context `context` on every rank; see [`Communicator::signal_in`]. Local.
    ///
    /// # Errors
    /// As [`Communicator::signal_in`].
    #[track_caller]
    pub fn signal_in(&self, context: u32, index: u32) -> Result<PerRank<SignalSlot>> {
        let mut slots = Vec::with_capacity(self.size());
        for member in &self.members {
            slots.push(member.signal_in(context, index)?);
        }
        Ok(self.of_ranks(slots))
    }

    /// Declares how many elements each rank sends to each rank; see [`Communicator::splits`].
    ///
    /// # Errors
    /// As [`Communicator::splits`].
    #[track_caller]
    pub fn splits<N: BlockLen>(
        &mut self,
        sends: impl FnMut(Rank) -> Vec<N>,
    ) -> Result<PerRank<Splits>> {
        let site = Site::caller();
        // A bad length is refused before any rank declares its own.
        let counts = |sends: Vec<N>| sends.iter().map(|&n| block_len("splits", n, site)).collect();
        let sends = self.ranks().map(sends).map(counts).collect::<Result<Vec<_>>>()?;
        let splits =
            self.at_once("splits", site, sends, |member, sends| member.splits_at(sends, site));
        Ok(self.of_ranks(splits?))
    }

    /// Declares the length of each rank's block; see [`Communicator::blocks`].
    ///
    /// # Errors
    /// As [`Communicator::blocks`].
    #[track_caller]
    pub fn blocks<N: BlockLen>(&mut self, lens: impl FnMut(Rank) -> N) -> Result<PerRank<Blocks>> {
        let site = Site::caller();
        let lens = self.ranks().map(lens).map(|len| block_len("blocks", len, site));
        let lens = lens.collect::<Result<Vec<_>>>()?;
        let blocks = self.at_once("blocks", site, lens, |member, len| member.blocks_at(len, site));
        Ok(self.of_ranks(blocks?))
    }

    /// Divides the ranks by colour into cliques named `L`, returned in the order of colours. `ask`
    /// gives each rank's colour and key; ranks are ordered by key, then by their present rank. The
    /// host waits. See [`Communicator::split`].
    ///
    /// ```
    /// # use typed_nccl::{Clique, Host, Result, tag};
    /// tag!(pub Pair);
    ///
    /// # fn main() -> Result<()> {
    /// let mut all = Clique::init(Host::open_each(&[0, 1, 2, 3])?)?;
    /// let pairs = all.split::<Pair>(|rank| (rank.index() / 2, 0))?;
    /// assert!(pairs.iter().all(|pair| pair.size() == 2));
    /// # for pair in pairs { pair.finish()?; }
    /// # all.finish()
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Communicator::split`].
    #[track_caller]
    pub fn split<L: Label>(
        &mut self,
        ask: impl AsksForAPart,
    ) -> Result<Vec<Clique<L::On<W::Device>>>> {
        let site = Site::caller();
        // A bad colour is refused before any rank asks.
        let asked =
            self.ranks().map(ask).map(|(color, key)| Ok((color_of(color, site)?, key.number())));
        let asked = asked.collect::<Result<Vec<_>>>()?;
        let children = self.at_once("split", site, asked.clone(), |member, (color, key)| {
            member.split_at::<L>(color, key, None, site)
        })?;
        let mut cliques: BTreeMap<u64, Vec<Communicator<_>>> = BTreeMap::new();
        for ((color, _), child) in asked.into_iter().zip(children) {
            cliques.entry(color).or_default().push(child);
        }
        let clique = |mut members: Vec<Communicator<_>>| {
            members.sort_by_key(|member| member.rank().index());
            Clique::of(members)
        };
        Ok(cliques.into_values().map(clique).collect())
    }

    /// Returns at once, since this thread drives every rank. For code that also supports threads.
    ///
    /// # Errors
    /// The error that poisoned one of the ranks.
    #[track_caller]
    pub fn barrier(&self) -> Result<()> {
        self.members.iter().try_for_each(|member| member.health().map(drop))
    }

    fn ranks(&self) -> impl Iterator<Item = Rank> {
        self.members.iter().map(Communicator::rank)
    }

    fn of_ranks<X>(&self, items: Vec<X>) -> PerRank<X> {
        PerRank::new(items, self.id)
    }

    /// Makes a call on every rank that waits for the others, each with its own value.
    fn at_once<X: Send, R: Send>(
        &mut self,
        operation: &'static str,
        site: Site,
        values: impl IntoIterator<Item = X>,
        call: impl Fn(&mut Communicator<W>, X) -> Result<R> + Sync,
    ) -> Result<Vec<R>> {
        let members = self
            .members
            .iter_mut()
            .zip(values)
            .map(|(member, value)| (member.rank(), member.abort_handle(), (member, value)));
        at_once(operation, site, members, |(member, value)| call(member, value))
    }
}

/// Makes a call on every rank that waits for the others, each with its own value.
pub(super) fn at_once<X: Send, R: Send>(
    operation: &'static str,
    site: Site,
    members: impl IntoIterator<Item = (Rank, AbortHandle, X)>,
    call: impl Fn(X) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    wait::allowed(operation, site)?;
    let call = &call;
    let outcomes: Vec<Result<R>> = scope(|scope| {
        let calls = members.into_iter().map(|(rank, stop, value)| {
            let thread = Builder::new().name(format!("rank {rank}: {operation}"));
            thread.spawn_scoped(scope, move || call(value)).map_err(|error| {
                // The other ranks wait for it.
                let why = format!("{operation}: there was no thread ({error})");
                stop.abort(&why);
                Error::from(Abort { why, by: rank, at: site })
            })
        });
        let calls: Vec<_> = calls.collect();
        let ended = calls.into_iter().map(|call| {
            call.and_then(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
        });
        ended.collect()
    });
    outcomes.into_iter().collect()
}
