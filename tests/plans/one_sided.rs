//! One-sided operations with another form in NCCL: through some of the ranks, without a signal.

use typed_nccl::plan::build::{Checked, PlanBuilder};
use typed_nccl::plan::{self, Swapped, Values};
use typed_nccl::{CommConfig, Error, Host, Result};

use crate::ranks::spmd;

use super::declared::{checked, quiet_put, steps_of};

/// On a torus, every rank sends its number to all four neighbours, through its row and its column,
/// and becomes the sum of the five. `u` holds its own number and those of the left, right, upper
/// and lower neighbours.
fn torus() -> PlanBuilder<Checked> {
    let mut plan = PlanBuilder::new("torus");
    let (rows, cols) = (plan.axis("rows", 3..), plan.axis("cols", 3..));
    let (row, col) = (plan.communicator("row", [cols]), plan.communicator("col", [rows]));
    let u = plan.window().swapped().in_out::<u64>("u", 5);
    let signals = ["left", "right", "up", "down"].map(|name| plan.signal(name));
    let (net, cmp) = (plan.stream("net"), plan.stream("cmp"));
    let neighbours =
        [(row, cols.ring(1)), (row, cols.ring(-1)), (col, rows.ring(1)), (col, rows.ring(-1))];
    for (at, ((among, to), signal)) in (1_i64..).zip(neighbours.into_iter().zip(signals)) {
        plan.on(net).among(among).put(u.slice(0..1), to, u.slice(at..at + 1)).signal(signal);
    }
    let [left, right, up, down] = signals;
    plan.on(net).among(row).wait([left.from(cols.ring(-1)), right.from(cols.ring(1))]);
    plan.on(net).among(col).wait([up.from(rows.ring(-1)), down.from(rows.ring(1))]);
    plan.on(cmp).after([net]).run("sum").reads(u).writes(u.next().slice(0..1));
    checked(plan)
}

#[test]
fn puts_along_rows_and_columns() {
    let torus = torus();
    for (rows, cols) in [(3, 3), (4, 3)] {
        spmd::<Host>(rows * cols, |place| {
            let mut comm = place.init()?;
            let (row, col) = (comm.rank().index() / cols, comm.rank().index() % cols);
            let values = Values::new().axis("rows", rows).axis("cols", cols);
            let mut field: Vec<u64> = (0..(rows * cols) as u64).map(|rank| rank * rank).collect();
            let (mut first, second) = (comm.window::<u64>(5)?, comm.window::<u64>(5)?);
            first.copy_from(&[field[comm.rank().index()], 0, 0, 0, 0])?;
            let mut u = Swapped::new(first, second);
            // Binding waits for all ranks, so the neighbours' windows are filled before the first
            // put.
            let mut torus = plan::bind(&mut comm, torus.plan(), &values)?;
            for _ in 0..4 {
                let mut steps = steps_of(&comm, |call| {
                    let (u, mut next) = (call.read::<u64>(0)?, call.write::<u64>(0)?);
                    call.stream().launch((&u, &mut next), |(u, next), _| {
                        next[0] = u.iter().sum();
                    })
                });
                torus.on(&comm).write("u", &mut u).run(&mut steps)?;
                let at = |row: usize, col: usize| field[row % rows * cols + col % cols];
                let sum = |row: usize, col: usize| {
                    let beside = at(row, col + 1) + at(row, col + cols - 1);
                    at(row, col) + beside + at(row + 1, col) + at(row + rows - 1, col)
                };
                field = (0..rows * cols).map(|rank| sum(rank / cols, rank % cols)).collect();
                assert_eq!(u.current().slice(0..1).to_vec()?, [field[row * cols + col]]);
            }
            comm.finish()
        })
        .expect("every rank verifies its own numbers");
    }
}

/// Two puts to one neighbour raise one signal through two communicators, and are awaited in the
/// opposite order.
fn crossed() -> PlanBuilder<Checked> {
    let mut plan = PlanBuilder::new("crossed");
    plan.once();
    let (_, cols) = (plan.axis("rows", 1..), plan.axis("cols", 2..));
    let row = plan.communicator("row", [cols]);
    let own = plan.window().input::<f32>("own", 1);
    let (a, b) = (plan.window().output::<f32>("a", 1), plan.window().output::<f32>("b", 1));
    let sent = plan.signal("sent");
    let net = plan.stream("net");
    plan.on(net).put(own, cols.ring(1), a).signal(sent);
    plan.on(net).among(row).put(own, cols.ring(1), b).signal(sent);
    plan.on(net).among(row).wait([sent.from(cols.ring(-1))]);
    plan.on(net).run("use").reads(b);
    plan.on(net).wait([sent.from(cols.ring(-1))]);
    checked(plan)
}

#[test]
fn what_is_wrong_through_all_ranks_is_refused() {
    let crossed = crossed();
    let told = Host::spmd(2, |place| -> Result<Error> {
        let mut comm = place.init()?;
        let values = Values::new().axis("rows", 1).axis("cols", 2);
        let told = plan::bind(&mut comm, crossed.plan(), &values).expect_err("one counter");
        comm.finish()?;
        Ok(told)
    });
    for told in told.expect("a refusal does no harm") {
        let told = told.to_string();
        assert!(told.contains("its puts and signals through `row` go through all ranks"), "{told}");
        assert!(told.contains("rank 1 puts into `b` of rank 0"), "{told}");
    }
}

#[test]
fn a_put_without_a_signal() {
    let quiet = quiet_put(4);
    for n in 1..=5 {
        spmd::<Host>(n, |place| {
            let mut comm = place.init_with(CommConfig::builder().signals(2).build())?;
            let (rank, before) = (comm.rank().index() as f32, comm.ring(-1).index() as f32);
            let mut a = comm.window::<f32>(4)?;
            let mut b = Swapped::new(comm.window::<f32>(4)?, comm.window::<f32>(4)?);
            let mut quiet = plan::bind(&mut comm, quiet.plan(), &Values::new())?;
            for run in 0..5_u8 {
                let run = f32::from(run);
                a.copy_from(&[rank, run, rank, run])?;
                quiet.on(&comm).read("a", &a).write("b", &mut b).run(&mut ())?;
                assert_eq!(b.current().to_vec()?, [before, run, before, run]);
            }
            comm.finish()
        })
        .expect("every rank verifies its own numbers");
    }
}
