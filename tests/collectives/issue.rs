//! One call of a case, on the library.

use typed_nccl::{
    Buffer, Communicator, Device, PreMulSum, Readable, ReduceOp, Result, Root, Stream, Writable,
};

use super::call::{Collective, Layout, Op, Region};
use super::elements::Value;
use super::reducing::{Reducing, reduce};

pub(crate) struct Issue<'a, T, D: Device> {
    pub(crate) comm: &'a Communicator<D>,
    /// The stream to use instead of the communicator's own.
    pub(crate) side: Option<&'a Stream<D>>,
    pub(crate) what: Collective,
    pub(crate) root: usize,
    pub(crate) op: Op,
    pub(crate) scaled: Option<&'a PreMulSum<T, D>>,
}

/// Calls a method of the communicator, or of the communicator on the other stream.
macro_rules! on {
    ($issue:expr, $method:ident($($arg:expr),+)) => {
        match $issue.side {
            None => $issue.comm.$method($($arg),+),
            Some(stream) => $issue.comm.on(stream).$method($($arg),+),
        }
    };
}

impl<T: Value, D: Device> Issue<'_, T, D> {
    pub(crate) fn run(
        &self,
        layout: &Layout,
        buffers: &mut [Buffer<T, D>],
        fresh: &mut Vec<Buffer<T, D>>,
    ) -> Result<()> {
        match layout {
            Layout { held: Some(held), .. } => {
                let buffer = &mut buffers[held.buffer];
                match held.range == (0..buffer.len()) {
                    true => self.in_place(buffer),
                    false => self.in_place(&mut buffer.slice_mut(held.range.clone())),
                }
            }
            Layout { gives: true, send: Some(send), .. } => {
                self.fresh(&buffers[send.buffer].slice(send.range.clone()), fresh)
            }
            Layout { send: Some(send), recv: Some(recv), .. } if send.buffer == recv.buffer => {
                self.parts(send, recv, &mut buffers[send.buffer])
            }
            Layout { send, recv, .. } => self.two(send.as_ref(), recv.as_ref(), buffers),
        }
    }

    /// Two buffers, whole if they are used whole. An operand that this rank does not have is
    /// replaced by an empty one, which the call does not get.
    fn two(
        &self,
        send: Option<&Region>,
        recv: Option<&Region>,
        buffers: &mut [Buffer<T, D>],
    ) -> Result<()> {
        let count = buffers.len();
        let beside = |region: Option<&Region>| region.map_or(0, |r| (r.buffer + 1) % count);
        let nothing = |buffer| Region { buffer, range: 0..0 };
        let whole = [send, recv].iter().flatten().all(|r| r.range == (0..buffers[r.buffer].len()));
        let from = send.cloned().unwrap_or_else(|| nothing(beside(recv)));
        let to = recv.cloned().unwrap_or_else(|| nothing(beside(send)));
        let [x, y] = buffers.get_disjoint_mut([from.buffer, to.buffer]).expect("two buffers");
        match whole {
            true => self.apart(x, y),
            false => self.apart(&x.slice(from.range), &mut y.slice_mut(to.range)),
        }
    }

    /// Two parts of one buffer.
    fn parts(&self, send: &Region, recv: &Region, x: &mut Buffer<T, D>) -> Result<()> {
        let (from, to) = (send.range.clone(), recv.range.clone());
        let middle = from.start.max(to.start);
        let (low, high) = x.all_mut().split_at_mut(middle);
        if from.start <= to.start {
            let to = to.start - middle..to.end - middle;
            self.apart(&low.as_slice().slice(from), &mut high.into_slice(to))
        } else {
            let from = from.start - middle..from.end - middle;
            self.apart(&high.as_slice().slice(from), &mut low.into_slice(to))
        }
    }

    fn apart<A, B>(&self, send: &A, recv: &mut B) -> Result<()>
    where
        A: Readable<D, Elem = T>,
        B: Writable<D> + Readable<D, Elem = T>,
    {
        match self.what {
            Collective::AllReduce | Collective::Reduce | Collective::ReduceScatter => {
                reduce(self.op, self.scaled, Apart { issue: self, send, recv })
            }
            Collective::Broadcast => on!(self, broadcast(self.root(send), recv)),
            Collective::AllGather => on!(self, all_gather(send, recv)),
            Collective::AllToAll => on!(self, all_to_all(send, recv)),
            Collective::Gather => on!(self, gather_into(send, self.root(recv))),
            Collective::Scatter => on!(self, scatter(self.root(send), recv)),
        }
    }

    fn in_place<B>(&self, buf: &mut B) -> Result<()>
    where
        B: Writable<D> + Readable<D, Elem = T>,
    {
        match self.what {
            Collective::AllReduce | Collective::Reduce | Collective::ReduceScatter => {
                reduce(self.op, self.scaled, InPlace { issue: self, buf })
            }
            Collective::Broadcast => on!(self, broadcast_in_place(buf, self.root)),
            Collective::AllGather => on!(self, all_gather_in_place(buf)),
            Collective::AllToAll => unreachable!("all_to_all has no form in one buffer"),
            Collective::Gather => on!(self, gather_in_place(buf, self.root)),
            Collective::Scatter => on!(self, scatter_in_place(buf, self.root)),
        }
    }

    fn fresh<A>(&self, send: &A, fresh: &mut Vec<Buffer<T, D>>) -> Result<()>
    where
        A: Readable<D, Elem = T>,
    {
        if self.what == Collective::Reduce {
            return reduce(self.op, self.scaled, Fresh { issue: self, send, fresh });
        }
        fresh.extend(on!(self, gather(send, self.root))?);
        Ok(())
    }

    /// An argument that only the root passes.
    fn root<X>(&self, mine: X) -> Root<X> {
        match self.comm.rank().index() == self.root {
            true => Root::Here(mine),
            false => Root::at(self.root),
        }
    }
}

struct Apart<'a, T, D: Device, A, B> {
    issue: &'a Issue<'a, T, D>,
    send: &'a A,
    recv: &'a mut B,
}

impl<T, D, A, B> Reducing<T, D> for Apart<'_, T, D, A, B>
where
    T: Value,
    D: Device,
    A: Readable<D, Elem = T>,
    B: Writable<D> + Readable<D, Elem = T>,
{
    fn with(self, op: impl ReduceOp<T, D>) -> Result<()> {
        let Self { issue, send, recv } = self;
        match issue.what {
            Collective::Reduce => on!(issue, reduce_into(send, issue.root(recv), op)),
            Collective::ReduceScatter => on!(issue, reduce_scatter(send, recv, op)),
            _ => on!(issue, all_reduce(send, recv, op)),
        }
    }
}

struct InPlace<'a, T, D: Device, B> {
    issue: &'a Issue<'a, T, D>,
    buf: &'a mut B,
}

impl<T, D, B> Reducing<T, D> for InPlace<'_, T, D, B>
where
    T: Value,
    D: Device,
    B: Writable<D> + Readable<D, Elem = T>,
{
    fn with(self, op: impl ReduceOp<T, D>) -> Result<()> {
        let Self { issue, buf } = self;
        match issue.what {
            Collective::Reduce => on!(issue, reduce_in_place(buf, op, issue.root)),
            Collective::ReduceScatter => on!(issue, reduce_scatter_in_place(buf, op)),
            _ => on!(issue, all_reduce_in_place(buf, op)),
        }
    }
}

struct Fresh<'a, T, D: Device, A> {
    issue: &'a Issue<'a, T, D>,
    send: &'a A,
    fresh: &'a mut Vec<Buffer<T, D>>,
}

impl<T, D, A> Reducing<T, D> for Fresh<'_, T, D, A>
where
    T: Value,
    D: Device,
    A: Readable<D, Elem = T>,
{
    fn with(self, op: impl ReduceOp<T, D>) -> Result<()> {
        let Self { issue, send, fresh } = self;
        fresh.extend(on!(issue, reduce(send, op, issue.root))?);
        Ok(())
    }
}
