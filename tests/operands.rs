//! How operands are passed: `&x` and views, in calls, plans, groups, captures, lanes, launches and
//! kernels. What is read is a reference or a view by value. What is written is borrowed by calls,
//! kernels and runs of plans, and kept by what records and by launches, which so take exclusive
//! views by value.

use typed_nccl::kernel::RunsOn;
use typed_nccl::plan::build::{PlanBuilder, ring};
use typed_nccl::plan::{self, Plan, Values};
use typed_nccl::{
    Buffer, Clique, Communicator, DType, Device, DynBuffer, Error, Host, Place, Result, Root,
    Scoped, Stream, Sum, World, group, kernel,
};

use crate::ranks::spmd;

const LEN: usize = 4;

/// This rank's communicator, what it sends and what it receives into.
macro_rules! start {
    ($place:ident => $comm:ident, $x:ident, $y:ident) => {
        let mut $comm = $place.init()?;
        let $x = $comm.device().from_slice(&[$comm.rank().index() as f32; 2 * LEN])?;
        let mut $y = $comm.device().zeros::<f32>(2 * LEN)?;
    };
}

/// `y` holds the left neighbour's values in its first half, and nothing yet in its second.
fn is_half(left: usize, y: &[f32]) {
    assert_eq!(y, [[left as f32; LEN], [0.0; LEN]].concat());
}

fn each(body: impl Fn(Place<Host<Scoped<'_>>>) -> Result<()> + Sync) -> Result<()> {
    spmd::<Host>(2, body)
}

#[test]
fn calls_borrow_buffers_and_views() -> Result<()> {
    each(|place| {
        let comm = place.init()?;
        let x = comm.device().from_slice(&[comm.rank().index() as f32; 2 * LEN])?;
        let mut y = comm.device().zeros::<f32>(2 * LEN)?;
        let (right, left, rank) = (comm.ring(1), comm.ring(-1), comm.rank().index());
        let stream = comm.device().stream()?;
        let (view, mut held) = (x.slice(0..LEN), comm.device().zeros::<f32>(LEN)?);
        for turn in 0..2 {
            if rank == turn {
                comm.send(&x, right)?;
                comm.send(&x.slice(0..LEN), right)?;
                comm.send(&&view, right)?;
                comm.on(&stream).send(&view, right)?;
            } else {
                comm.recv(&mut y, left)?;
                comm.recv(&mut y.slice_mut(0..LEN), left)?;
                comm.recv(&mut &mut held, left)?;
                comm.on(&stream).recv(&mut held.slice_mut(0..LEN), left)?;
            }
        }
        assert_eq!(y.to_vec()?, [left.index() as f32; 2 * LEN]);
        assert_eq!(held.to_vec()?, [left.index() as f32; LEN]);
        comm.all_reduce(&x, &mut y, Sum)?;
        comm.all_reduce(&view, &mut y.slice_mut(0..LEN), Sum)?;
        comm.all_gather(&x.slice(0..LEN), &mut y)?;
        assert_eq!(y.to_vec()?, [[0.0; LEN], [1.0; LEN]].concat());
        comm.finish()
    })
}

#[test]
fn calls_read_views_by_value() -> Result<()> {
    each(|place| {
        start!(place => comm, x, y);
        let (right, left, rank) = (comm.ring(1), comm.ring(-1), comm.rank().index());
        let (view, stream) = (x.slice(0..LEN), comm.device().stream()?);
        let mut half = comm.device().zeros::<f32>(LEN)?;
        if rank == 0 {
            comm.send(x.slice(0..LEN), right)?;
            comm.on(&stream).send(view, right)?;
            comm.send(&view, right)?;
        } else {
            (0..3).try_for_each(|_| comm.recv(&mut half, left))?;
        }
        comm.all_reduce(view, &mut y.slice_mut(0..LEN), Sum)?;
        comm.all_gather(x.slice(..LEN), &mut y)?;
        assert_eq!(y.to_vec()?, [[0.0; LEN], [1.0; LEN]].concat());
        comm.reduce_scatter(y.slice(..), &mut half, Sum)?;
        assert_eq!(half.to_vec()?, [2.0 * rank as f32; LEN]);
        comm.all_to_all(x.slice(..), &mut y)?;
        assert_eq!(y.to_vec()?, [[0.0; LEN], [1.0; LEN]].concat());
        comm.scatter(Root::here_or_at((rank == 1).then(|| y.slice(..)), 1), &mut half)?;
        assert_eq!(half.to_vec()?, [rank as f32; LEN]);
        let (all, sum) = (comm.gather(view, 0)?, comm.reduce(view, Sum, 1)?);
        assert_eq!(
            (all.map(|all| all.len()), sum.map(|sum| sum.len())),
            match rank {
                0 => (Some(2 * LEN), None),
                _ => (None, Some(LEN)),
            }
        );
        stream.copy(x.slice(..LEN), &mut half)?;
        stream.convert(x.slice(..LEN), &mut comm.device().zeros::<f64>(LEN)?)?;
        let kernels = comm.kernels()?;
        kernels.all_reduce(&comm, x.slice(..LEN), &mut half, Sum)?;
        assert_eq!(half.to_vec()?, [1.0; LEN]);
        let dynamic = DynBuffer::zeros(comm.device(), DType::F32, LEN)?;
        let mut out = DynBuffer::zeros(comm.device(), DType::F32, LEN)?;
        comm.all_reduce(dynamic.slice(..), &mut out, Sum)?;
        let window = comm.window::<f32>(LEN)?;
        comm.all_reduce(window.slice(..), &mut half, Sum)?;
        comm.close(window)?;
        comm.finish()
    })
}

/// A function's `x: &mut Buffer` is read and written by calls, and is the function's afterwards.
#[test]
fn calls_borrow_what_they_write() -> Result<()> {
    fn there_and_back<W: World>(
        comm: &Communicator<W>,
        x: &mut Buffer<f32, W::Device>,
    ) -> Result<()> {
        match comm.rank().index() {
            0 => {
                comm.send(&*x, 1)?;
                comm.recv(x, 1)?;
            }
            _ => {
                comm.recv(x, 0)?;
                comm.send(&*x, 0)?;
            }
        }
        comm.all_reduce_in_place(x, Sum)?;
        comm.all_gather(x, &mut comm.device().zeros::<f32>(4 * LEN)?)
    }

    each(|place| {
        let comm = place.init()?;
        let mut y = comm.device().from_slice(&[comm.rank().index() as f32; 2 * LEN])?;
        there_and_back(&comm, &mut y)?;
        assert_eq!(y.to_vec()?, [0.0; 2 * LEN]);
        comm.finish()
    })
}

#[test]
fn groups_borrow_buffers_and_keep_views() -> Result<()> {
    each(|place| {
        start!(place => comm, x, y);
        let (right, left) = (comm.ring(1), comm.ring(-1));
        comm.group(|g| {
            g.send(&x, right)?;
            g.recv(&mut y, left)
        })?;
        assert_eq!(y.to_vec()?, [left.index() as f32; 2 * LEN]);
        y.copy_from(&[0.0; 2 * LEN])?;
        let (view, stream) = (x.slice(0..LEN), comm.device().stream()?);
        comm.group_on(&stream, |g| {
            g.send(x.slice(0..LEN), right)?;
            g.recv(y.slice_mut(0..LEN), left)
        })?;
        is_half(left.index(), &y.to_vec()?);
        let mut third = comm.device().zeros::<f32>(LEN)?;
        group(&mut comm, |g| {
            g.send(view, right)?;
            g.send(&view, right)?;
            g.send(x.slice(LEN..2 * LEN), right)?;
            let (first, second) = y.slice_mut(0..2 * LEN).split_at_mut(LEN);
            g.recv(first, left)?;
            g.recv(second, left)?;
            g.recv(&mut third, left)
        })?;
        assert_eq!(y.to_vec()?, [left.index() as f32; 2 * LEN]);
        assert_eq!(third.to_vec()?, [left.index() as f32; LEN]);
        comm.finish()
    })
}

#[test]
fn captures_take_what_calls_take() -> Result<()> {
    each(|place| {
        start!(place => comm, x, y);
        let (right, left) = (comm.ring(1), comm.ring(-1));
        let view = x.slice(0..LEN);
        let mut graph = comm.capture(|g| {
            g.all_reduce(&x, &mut y, Sum)?;
            g.all_reduce(&x.slice(LEN..2 * LEN), &mut y.slice_mut(LEN..2 * LEN), Sum)?;
            g.group(|g| {
                g.send(view, right)?;
                g.recv(y.slice_mut(0..LEN), left)
            })
        })?;
        graph.launch(&comm)?;
        assert_eq!(y.to_vec()?, [[left.index() as f32; LEN], [1.0; LEN]].concat());
        comm.finish()
    })
}

#[test]
fn lanes_keep_the_views_that_they_are_handed() -> Result<()> {
    let mut clique = Clique::init(Host::open_each(&[0, 1])?)?;
    let x = clique.per_rank(|rank, device| device.from_slice(&[rank.index() as f32; 2 * LEN]))?;
    let mut y = clique.alloc::<f32>(2 * LEN)?;
    clique.group((&x, &mut y), |lane, (x, y)| {
        let (right, left) = (lane.ring(1), lane.ring(-1));
        lane.send(x, right)?;
        lane.recv(y, left)
    })?;
    assert_eq!(clique.to_host(&y)?, [[1.0; 2 * LEN], [0.0; 2 * LEN]]);
    clique.group((&x, &mut y), |lane, (x, y)| {
        let (right, left) = (lane.ring(1), lane.ring(-1));
        let (first, second) = y.split_at_mut(LEN);
        lane.send(x.slice(0..LEN), right)?;
        lane.recv(first, left)?;
        lane.all_reduce(x.slice(LEN..2 * LEN), second, Sum)
    })?;
    let half = |left: f32| [[left; LEN], [1.0; LEN]].concat();
    assert_eq!(clique.to_host(&y)?, [half(1.0), half(0.0)]);
    clique.all_reduce(&x, &mut y, Sum)?;
    assert_eq!(clique.to_host(&y)?, [[1.0; 2 * LEN]; 2]);
    clique.finish()
}

/// Every rank sends two buffers to the next one.
fn shift_two() -> Plan {
    let mut plan = PlanBuilder::new("shift_two");
    plan.ranks(1..);
    let a = plan.array(2).input::<f32>("a", |_| LEN);
    let b = plan.array(2).output::<f32>("b", |_| LEN);
    let net = plan.stream("net");
    for i in 0..2 {
        plan.on(net).transfer(a.at(i), ring(1), b.at(i));
    }
    plan.check().expect("a plan that is right").plan().clone()
}

#[test]
fn plans_borrow_what_calls_borrow() -> Result<()> {
    each(|place| {
        start!(place => comm, x, y);
        let left = comm.ring(-1).index();
        let mut shift = plan::bind(&mut comm, &shift_two(), &Values::new())?;
        let (a, mut b) = (x.slice(LEN..), comm.device().zeros::<f32>(LEN)?);
        let mut c = comm.device().zeros::<f32>(LEN)?;
        // Views of one buffer, one after the other.
        shift
            .on(&comm)
            .read("a", &[x.slice(..LEN), a])
            .write("b", &mut y.parts_mut([LEN, LEN]))
            .run(&mut ())?;
        assert_eq!(y.to_vec()?, [left as f32; 2 * LEN]);
        // References to buffers and to views.
        shift
            .on(&comm)
            .read("a", &[&a, &x.slice(..LEN)])
            .write("b", &mut [&mut b, &mut c])
            .run(&mut ())?;
        assert_eq!((b.to_vec()?, c.to_vec()?), (vec![left as f32; LEN], vec![left as f32; LEN]));
        // A slice of buffers; and views by reference.
        let (both, mut part) = ([b, c], comm.device().zeros::<f32>(2 * LEN)?);
        let (mut first, mut second) = part.slice_mut(..).split_at_mut(LEN);
        shift
            .on(&comm)
            .read("a", &both[..])
            .write("b", &mut [&mut first, &mut second])
            .run(&mut ())?;
        assert_eq!(part.to_vec()?, [1.0 - left as f32; 2 * LEN]);
        comm.finish()
    })
}

/// Every rank sends one buffer to the next one.
fn shift() -> Plan {
    let mut plan = PlanBuilder::new("shift");
    plan.ranks(1..);
    let a = plan.input::<f32>("a", LEN as i64);
    let b = plan.output::<f32>("b", LEN as i64);
    let net = plan.stream("net");
    plan.on(net).transfer(a, ring(1), b);
    plan.check().expect("a plan that is right").plan().clone()
}

#[test]
fn plans_take_one_view_as_calls_do() -> Result<()> {
    each(|place| {
        start!(place => comm, x, y);
        let left = comm.ring(-1).index();
        let mut shift = plan::bind(&mut comm, &shift(), &Values::new())?;
        let view = x.slice(..LEN);
        shift
            .on(&comm)
            .read("a", &x.slice(LEN..))
            .write("b", &mut y.slice_mut(..LEN))
            .run(&mut ())?;
        is_half(left, &y.to_vec()?);
        let mut half = comm.device().zeros::<f32>(LEN)?;
        shift.on(&comm).read("a", &&view).write("b", &mut &mut half).run(&mut ())?;
        assert_eq!(half.to_vec()?, [left as f32; LEN]);
        // One that is too long, and one past the end; the other rank is told.
        let mut misfit = |range: std::ops::Range<usize>| {
            shift.on(&comm).read("a", &view).write("b", &mut y.slice_mut(range)).run(&mut ())
        };
        let error = misfit(0..LEN + 1).expect_err("it is longer than the plan's");
        assert!(error.to_string().contains("has 5"), "{error}");
        let error = misfit(LEN..2 * LEN + 1).expect_err("it is past the end");
        assert!(matches!(error, Error::BadRange(_)), "{error}");
        misfit(LEN..2 * LEN)?;
        assert_eq!(y.to_vec()?, [left as f32; 2 * LEN]);
        comm.finish()
    })
}

/// A helper is generic over its operand as the operations are: by reference where it calls, by
/// value where it records.
#[test]
fn helpers_take_what_operations_take() -> Result<()> {
    use typed_nccl::{Group, Readable, RecordRead, RecordWrite, Writable};

    fn calls<W: World>(
        comm: &Communicator<W>,
        x: &impl Readable<W::Device, Elem = f32>,
        y: &mut impl Writable<W::Device, Elem = f32>,
    ) -> Result<()> {
        comm.all_reduce(x, y, Sum)
    }

    fn records<'e, W: World>(
        g: &mut Group<'e, W>,
        x: impl RecordRead<'e, W::Device, Elem = f32>,
        y: impl RecordWrite<'e, W::Device, Elem = f32>,
    ) -> Result<()> {
        assert_eq!((x.len(), x.is_empty()), (y.len(), false));
        assert_eq!((x.dtype(), y.dtype()), (DType::F32, DType::F32));
        g.all_reduce(x, y, Sum)
    }

    each(|place| {
        start!(place => comm, x, y);
        calls(&comm, &x, &mut y)?;
        calls(&comm, &x.slice(0..LEN), &mut y.slice_mut(LEN..2 * LEN))?;
        comm.group(|g| records(g, &x, &mut y))?;
        comm.group(|g| records(g, x.slice(0..LEN), y.slice_mut(0..LEN)))?;
        assert_eq!(y.to_vec()?, [1.0; 2 * LEN]);
        comm.finish()
    })
}

kernel! {
    fn add(x: &[f32], y: &mut [f32]);
    host {
        y.iter_mut().zip(x).for_each(|(y, x)| *y += x);
    }
}

#[test]
fn launches_take_views_by_value_and_by_reference() -> Result<()> {
    each(|place| {
        start!(place => comm, x, y);
        let stream = comm.device().stream()?;
        let (of_x, rank) = (x.slice(..LEN), comm.rank().index() as f32);
        y.copy_from(&[0.0; 2 * LEN])?;
        let add = |(x, y): (&[f32], &mut [f32]), ()| {
            y.iter_mut().zip(x).for_each(|(y, x)| *y += x + 1.0);
        };
        stream.launch((&x, &mut y), add)?;
        stream.launch((&x.slice(..LEN), &mut y.slice_mut(..LEN)), add)?;
        stream.launch((x.slice(..LEN), y.slice_mut(..LEN)), add)?;
        stream.launch((of_x, &mut y), add)?;
        stream.launch((of_x, y.slice_mut(LEN..)), add)?;
        assert_eq!(y.to_vec()?, [[4.0 * (rank + 1.0); LEN], [2.0 * (rank + 1.0); LEN]].concat());
        let many = (of_x, of_x, of_x, of_x, of_x, of_x, of_x, of_x, of_x, of_x, of_x, &mut y);
        stream.launch(many, |(a, b, c, d, e, f, g, h, i, j, k, y), ()| {
            assert!([b, c, d, e, f, g, h, i, j, k].iter().all(|x| *x == a));
            y.iter_mut().for_each(|y| *y -= 0.0);
        })?;
        let (first, second) = y.slice_mut(..).split_at_mut(LEN);
        stream.launch((first, second), |(x, y), ()| x.swap_with_slice(y))?;
        stream.launch(y.slice_mut(..LEN), |y, ()| y.fill(7.0))?;
        assert_eq!(y.to_vec()?, [[7.0; LEN], [4.0 * (rank + 1.0); LEN]].concat());
        let window = comm.window::<f32>(LEN)?;
        stream.launch((window.slice(1..), y.slice_mut(..LEN - 1)), |(x, y), ()| {
            y.copy_from_slice(x);
        })?;
        assert_eq!(y.slice(..LEN).to_vec()?, [0.0, 0.0, 0.0, 7.0]);
        comm.close(window)?;
        comm.finish()
    })
}

#[test]
#[allow(clippy::needless_borrows_for_generic_args, reason = "both forms are accepted")]
fn kernels_read_views_by_value() -> Result<()> {
    /// What a kernel writes is the function's afterwards.
    fn twice<D: Device>(
        stream: &Stream<D>,
        x: &Buffer<f32, D>,
        y: &mut Buffer<f32, D>,
    ) -> Result<()>
    where
        add: RunsOn<D>,
    {
        stream.run(add(x, y))?;
        stream.run(add(x.slice(..), y))
    }

    each(|place| {
        let (host, rank) = (place.device(), place.rank().index() as f32);
        let (x, mut y) = (host.from_slice(&[rank; 2 * LEN])?, host.zeros::<f32>(2 * LEN)?);
        let (of_x, stream) = (x.slice(..LEN), host.stream()?);
        stream.run(add(&x, &mut y))?;
        stream.run(add(&x.slice(..LEN), &mut y.slice_mut(..LEN)))?;
        stream.run(add(x.slice(..LEN), &mut y))?;
        stream.run(add(of_x, &mut y.slice_mut(LEN..)))?;
        stream.run(add(of_x, &mut y))?;
        assert_eq!(y.to_vec()?, [[4.0 * rank; LEN], [2.0 * rank; LEN]].concat());
        twice(&stream, &x, &mut y)?;
        assert_eq!(y.to_vec()?, [[6.0 * rank; LEN], [4.0 * rank; LEN]].concat());
        Ok(())
    })
}

#[test]
fn a_view_by_value_past_its_buffer_is_refused() -> Result<()> {
    let host = Host::local()?;
    let (x, mut y, stream) = (host.zeros::<f32>(LEN)?, host.zeros::<f32>(LEN)?, host.stream()?);
    let refused = [
        stream.launch((x.slice(..=LEN), &mut y), |_, ()| {}),
        stream.launch((&x, y.slice_mut(LEN + 1..)), |_, ()| {}),
        stream.launch(y.slice_mut(..=LEN), |_, ()| {}),
        stream.run(add(x.slice(..=LEN), &mut y)),
    ];
    assert!(refused.iter().all(|it| matches!(it, Err(Error::BadRange(_)))), "{refused:?}");
    stream.sync()
}

#[test]
fn a_view_by_value_on_another_device_is_refused() -> Result<()> {
    let [near, far] = &Host::open_each(&[0, 1])?[..] else { panic!("not two") };
    let (stream, mut x, mut far) = (near.stream()?, near.zeros::<f32>(LEN)?, far.zeros(LEN)?);
    let refused = [
        stream.launch(far.slice(..), |_, ()| {}),
        stream.launch((x.slice(..), far.slice_mut(..)), |_, ()| {}),
        stream.run(add(far.slice(..), &mut x)),
    ];
    assert!(refused.iter().all(|it| matches!(it, Err(Error::OtherDevice(_)))), "{refused:?}");
    Ok(())
}
