//! Repeated calls need no more memory than single ones. Each kind of call runs thousands of times,
//! and the allocated memory after one third of them, two thirds and all is compared.
//!
//! A kind is a function that prepares what its calls need and returns one call: add it to `KINDS`.

use std::time::Duration;

use typed_nccl::plan::build::{PlanBuilder, ring};
use typed_nccl::plan::{self, Values};
use typed_nccl::{
    AnyDevice, CommConfig, Communicator, Host, Ordered, Result, Root, Seat, Signals, Sum, tag,
};

use crate::counting;
use crate::own_process::inside_for;

tag!(Child);

const RANKS: usize = 2;

type Comm = Communicator<Host<AnyDevice>>;
/// One call, on one of the ranks. Work that it leaves in flight ends by itself.
type Call = Box<dyn FnMut(&mut Comm) -> Result<()>>;
/// Its name, the number of calls for each measurement, and its function.
type Kind = (&'static str, usize, fn(&mut Comm) -> Result<Call>);

const KINDS: &[Kind] = &[
    ("a collective", 3000, |comm| {
        let mut x = comm.device().zeros::<f32>(8)?;
        Ok(Box::new(move |comm| comm.all_reduce_in_place(&mut x, Sum)))
    }),
    ("a collective on a new stream", 1000, |comm| {
        let mut x = comm.device().zeros::<f32>(8)?;
        Ok(Box::new(move |comm| {
            let stream = comm.device().stream()?;
            comm.on(&stream).all_reduce_in_place(&mut x, Sum)
        }))
    }),
    ("new memory", 3000, |_| {
        Ok(Box::new(|comm| {
            let mut x = comm.device().from_slice(&[1_i32; 100])?;
            comm.all_reduce_in_place(&mut x, Sum)
        }))
    }),
    ("a collective that is refused", 1000, |comm| {
        let (x, mut y) = (comm.device().zeros::<f32>(8)?, comm.device().zeros::<f32>(7)?);
        Ok(Box::new(move |comm| {
            assert!(comm.all_gather(&x, &mut y).is_err());
            Ok(())
        }))
    }),
    ("a collective that one rank refuses", 500, |comm| {
        let mut x = comm.device().zeros::<f32>(8)?;
        Ok(Box::new(move |comm| {
            let root = if comm.rank().index() == 0 { 7 } else { 0 };
            let _ = comm.broadcast_in_place(&mut x, root);
            let _ = comm.sync(comm.stream());
            Ok(())
        }))
    }),
    ("a group of transfers", 2000, |comm| {
        let (x, mut y) = (comm.device().zeros::<f32>(8)?, comm.device().zeros::<f32>(8)?);
        Ok(Box::new(move |comm| {
            let (to, from) = (comm.ring(1), comm.ring(-1));
            comm.group(|g| {
                g.send(&x, to)?;
                g.recv(&mut y, from)
            })
        }))
    }),
    ("a launched closure", 2000, |comm| {
        let mut x = comm.device().zeros::<f32>(8)?;
        Ok(Box::new(move |comm| comm.stream().launch(&mut x, |x, _| x[0] += 1.0)))
    }),
    ("a mark", 2000, |comm| {
        let mut x = comm.device().zeros::<f32>(8)?;
        Ok(Box::new(move |comm| {
            comm.all_reduce_in_place(&mut x, Sum)?;
            comm.mark(comm.stream()).map(drop)
        }))
    }),
    ("two streams in turns", 2000, |comm| {
        let mut x = comm.device().zeros::<f32>(8)?;
        let streams = [comm.device().stream()?, comm.device().stream()?];
        let mut turn = 0;
        Ok(Box::new(move |comm| {
            turn += 1;
            comm.on(&streams[turn % 2]).all_reduce_in_place(&mut x, Sum)
        }))
    }),
    ("a put with its signal", 2000, |comm| {
        let w = comm.window::<f32>(8)?;
        Ok(Box::new(move |comm| {
            comm.put_signal(w.slice(0..4), comm.ring(1), w.at(4))?;
            comm.wait_signal(comm.ring(-1))
        }))
    }),
    // Debug builds check the order of uses, with bounded records.
    ("puts that are read, and streams that wait for each other", 500, |comm| {
        let (w, source) = (comm.window::<f32>(8)?, comm.window::<f32>(8)?);
        let mut read = comm.device().zeros::<f32>(8)?;
        let (first, second) = (comm.device().stream()?, comm.device().stream()?);
        Ok(Box::new(move |comm| {
            let (left, right) = (comm.ring(-1), comm.ring(1));
            comm.on(&first).put_signal(&source, right, w.at(0))?;
            comm.on(&first).wait_signal(left)?;
            second.wait_for(&first.mark()?)?;
            second.launch((&w, &mut read), |(w, read), ()| read.copy_from_slice(w))?;
            first.wait_for(&second.mark()?)?;
            comm.on(&first).signal(left)?;
            comm.on(&first).wait_signal(right)?;
            comm.on(&second).all_reduce_in_place(&mut read, Sum)?;
            comm.sync(&first)?;
            comm.sync(&second)
        }))
    }),
    ("a wait for a signal on a new stream", 1000, |comm| {
        let w = comm.window::<f32>(8)?;
        Ok(Box::new(move |comm| {
            let _ = &w;
            comm.signal(comm.ring(1))?;
            let stream = comm.device().stream()?;
            comm.on(&stream).wait_signal(comm.ring(-1))?;
            comm.sync(&stream)
        }))
    }),
    ("a signal that nobody awaits", 2000, |comm| {
        let w = comm.window::<f32>(8)?;
        Ok(Box::new(move |comm| {
            let _ = &w;
            comm.signal(comm.ring(1))
        }))
    }),
    ("a put that is refused", 2000, |comm| {
        let w = comm.window::<f32>(8)?;
        Ok(Box::new(move |comm| {
            assert!(comm.put_signal(w.slice(0..4), comm.ring(1), w.at(5)).is_err());
            Ok(())
        }))
    }),
    ("puts of which some are refused", 2000, |comm| {
        let w = comm.window::<f32>(8)?;
        let mut turn = 0;
        Ok(Box::new(move |comm| {
            turn += 1;
            let outcome = comm.put_signal(w.slice(0..4), comm.ring(1), w.at(4 + turn % 3 / 2));
            assert_eq!(outcome.is_err(), turn % 3 == 2);
            Ok(())
        }))
    }),
    ("signals that are awaited together", 2000, |comm| {
        let w = comm.window::<f32>(8)?;
        let mut arrivals = Signals::new();
        Ok(Box::new(move |comm| {
            let _ = &w;
            comm.signal(comm.ring(1))?;
            arrivals.clear();
            arrivals.expect(comm.ring(-1));
            comm.wait_signals(&arrivals)
        }))
    }),
    ("a window", 300, |_| {
        Ok(Box::new(|comm| {
            let w = comm.window::<f32>(8)?;
            comm.close(w).map(drop)
        }))
    }),
    ("a registered buffer", 2000, |comm| {
        let x = comm.device().nccl_zeros::<f32>(8)?;
        Ok(Box::new(move |comm| {
            let registration = comm.register_buffer(&x)?;
            comm.deregister_buffer(registration)
        }))
    }),
    ("an operator", 2000, |comm| {
        let mut x = comm.device().zeros::<f32>(8)?;
        Ok(Box::new(move |comm| {
            let half = comm.pre_mul_sum(0.5_f32)?;
            comm.all_reduce_in_place(&mut x, &half)
        }))
    }),
    ("an operator with a scalar of the device", 1000, |comm| {
        let mut x = comm.device().zeros::<f32>(8)?;
        Ok(Box::new(move |comm| {
            let half = comm.device().from_slice(&[0.5_f32])?;
            let half = comm.pre_mul_sum_device(half)?;
            comm.all_reduce_in_place(&mut x, &half)
        }))
    }),
    ("host values", 1000, |_| {
        Ok(Box::new(|comm| {
            comm.gather_values(&comm.rank().index())?;
            comm.broadcast_value(&3_u8, 1).map(drop)
        }))
    }),
    ("host values of different types", 500, |_| {
        Ok(Box::new(|comm| {
            let outcome = match comm.rank().index() {
                0 => comm.gather_values(&1_u8).map(drop),
                _ => comm.gather_values(&1_i8).map(drop),
            };
            assert!(outcome.is_err());
            Ok(())
        }))
    }),
    ("different host-side calls", 500, |_| {
        Ok(Box::new(|comm| {
            let outcome = match comm.rank().index() {
                0 => comm.barrier(),
                _ => comm.gather_values(&1_i8).map(drop),
            };
            assert!(outcome.is_err());
            Ok(())
        }))
    }),
    ("declared lengths", 500, |comm| {
        let (x, mut y) = (comm.device().zeros::<f32>(3)?, comm.device().zeros::<f32>(6)?);
        Ok(Box::new(move |comm| {
            let blocks = comm.blocks(3)?;
            comm.all_gather_v(&x, &mut y, &blocks)
        }))
    }),
    ("a child", 200, |_| Ok(Box::new(|comm| comm.split::<Child>(0, 0)?.finish()))),
    ("a child that shares its parent's resources", 200, |_| {
        Ok(Box::new(|comm| comm.split_shared::<Child>(0, 0)?.finish()))
    }),
    ("a child that is dropped", 200, |_| {
        Ok(Box::new(|comm| {
            let child = comm.split::<Child>(0, 0)?;
            child.barrier()?;
            drop(child.abort());
            comm.barrier()
        }))
    }),
    ("roots", 1000, |comm| {
        let (x, mut y) = (comm.device().zeros::<f32>(3)?, comm.device().zeros::<f32>(3)?);
        Ok(Box::new(move |comm| {
            let root = if comm.rank().index() == 0 {
                Root::Here(&mut y)
            } else {
                Root::There(typed_nccl::Rank::from_index(0))
            };
            comm.reduce_into(&x, root, Sum)
        }))
    }),
    ("a request of an ordered communicator", 1000, |comm| {
        let ordered = Ordered::new(comm.split::<Child>(0, 0)?)?;
        let mut x = comm.device().zeros::<f32>(8)?;
        Ok(Box::new(move |_| ordered.submit("x", |comm| comm.all_reduce_in_place(&mut x, Sum))))
    }),
    ("a plan", 1000, |comm| {
        let mut shift = PlanBuilder::new("shift");
        shift.ranks(1..);
        let (a, b) = (shift.input::<f32>("a", 4), shift.output::<f32>("b", 4));
        let net = shift.stream("net");
        shift.on(net).transfer(a, ring(1), b);
        let shift = shift.check().expect("a plan for any number of ranks");
        let mut shift = plan::bind(comm, shift.plan(), &Values::new())?;
        let (a, mut b) = (comm.device().zeros::<f32>(4)?, comm.device().zeros::<f32>(4)?);
        Ok(Box::new(move |comm| shift.on(comm).read("a", &a).write("b", &mut b).run(&mut ())))
    }),
    ("a plan that is given windows", 1000, |comm| {
        let mut pass = PlanBuilder::new("pass");
        pass.ranks(1..);
        let (a, w) = (pass.window().input::<f32>("a", 2), pass.window().output::<f32>("w", 2));
        let (came, read) = (pass.signal("came"), pass.signal("read"));
        let net = pass.stream("net");
        pass.on(net).put(a, ring(1), w).signal(came);
        pass.on(net).wait([came.from(ring(-1))]);
        pass.on(net).signal(read, ring(-1));
        pass.on(net).wait([read.from(ring(1))]);
        let pass = pass.check().expect("a plan for any number of ranks");
        let mut pass = plan::bind(comm, pass.plan(), &Values::new())?;
        let a = comm.window::<f32>(2)?;
        let mut windows = [comm.window::<f32>(2)?, comm.window::<f32>(2)?];
        let mut turn = 0;
        Ok(Box::new(move |comm| {
            turn += 1;
            let w = &mut windows[turn % 2];
            pass.on(comm).read("a", &a).write("w", w).run(&mut ())
        }))
    }),
    ("a plan that is bound", 100, |_| {
        Ok(Box::new(|comm| {
            let mut shift = PlanBuilder::new("shift");
            shift.ranks(1..);
            let (a, b) = (shift.input::<f32>("a", 4), shift.output::<f32>("b", 4));
            let net = shift.stream("net");
            shift.on(net).transfer(a, ring(1), b);
            let shift = shift.check().expect("a plan for any number of ranks");
            plan::bind(comm, shift.plan(), &Values::new()).map(drop)
        }))
    }),
];

/// Makes calls; returns the allocated memory when all of them are over on all ranks.
fn lap(comm: &mut Comm, times: usize, call: &mut Call) -> Result<isize> {
    for at in 0..times {
        call(comm)?;
        // Work in flight takes memory without being growth.
        if at % 50 == 0 {
            let _ = comm.sync(comm.stream());
            comm.barrier()?;
        }
    }
    while comm.sync(comm.stream()).is_err() {}
    comm.barrier()?;
    let live = counting::live();
    comm.barrier()?;
    Ok(live)
}

/// How many bytes a call left behind, at least.
fn growth(comm: &mut Comm, &(_, times, kind): &Kind) -> Result<f64> {
    let mut call = kind(comm)?;
    let laps = [(); 4].map(|()| lap(comm, times, &mut call));
    let laps = laps.into_iter().collect::<Result<Vec<isize>>>()?;
    let least = laps.windows(2).map(|pair| pair[1] - pair[0]).min();
    Ok(least.unwrap_or(0) as f64 / times as f64)
}

#[test]
fn calls_leave_nothing_behind() {
    if !inside_for(Duration::from_secs(600), "calls_leave_nothing_behind") {
        return;
    }
    let mut grown = Vec::new();
    for kind in KINDS {
        let told = std::thread::scope(|scope| {
            let rank = |seat: Seat| {
                scope.spawn(move || -> Result<f64> {
                    let device = Host::any(seat.rank().index() as u32)?;
                    let config = CommConfig::builder().signals(2).build();
                    let comm = Communicator::builder().seat(seat).device(device).config(config);
                    let mut comm = comm.build().connect()?;
                    let growth = growth(&mut comm, kind)?;
                    comm.barrier()?;
                    drop(comm.abort());
                    Ok(growth)
                })
            };
            let ranks: Vec<_> = Seat::local(RANKS).into_iter().map(rank).collect();
            let told = ranks.into_iter().map(|rank| rank.join().expect("no panic"));
            told.collect::<Result<Vec<f64>>>()
        });
        let told = told.unwrap_or_else(|error| panic!("{}: {error}", kind.0));
        // The ranks measure the same memory at about the same time; permanent growth is seen by all
        // of them.
        let growth = told.into_iter().fold(f64::MAX, f64::min);
        if growth > 4.0 {
            grown.push(format!("{}: {growth:.1} bytes a call", kind.0));
        }
    }
    assert!(grown.is_empty(), "memory grows with\n{}", grown.join("\n"));
}
