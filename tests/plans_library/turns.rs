//! Two alternating buffers: blocks of keys and values go around the ring while the ranks compute
//! with those that have arrived.

use typed_nccl::{Host, Result, Slice, SliceMut, Stream, plan};

use super::ranks::{RUNS, buffers, ranks, timings};

plan! {
    /// Every rank's queries with all ranks' keys and values, which no rank holds as a whole.
    attention<T: Float>(n: Ranks, len: usize) {
        in q, k, v: [T; len];
        out o: [T; len];
        local kb[i in 0..2], vb[i in 0..2]: [T; len];
        stream net, compute;
        run own(read q, read k, read v, write o) on compute;
        group {
            send k to (rank + 1) % n into kb[0];
            send v to (rank + 1) % n into vb[0];
        } on net;
        for i in 0..n - 1 {
            group {
                send kb[i % 2] to (rank + 1) % n into kb[(i + 1) % 2];
                send vb[i % 2] to (rank + 1) % n into vb[(i + 1) % 2];
            } on net;
            run attend((rank - i - 1) % n, read q, read kb[i % 2], read vb[i % 2], update o) on compute;
        }
    }
}

/// Products instead of attention: they show which keys and values came together, and as whose.
struct Products;

type Read<'a, Tag> = Slice<'a, f64, Host<Tag>>;
type Write<'a, Tag> = SliceMut<'a, f64, Host<Tag>>;

impl<Tag> attention::Steps<f64, Host<Tag>> for Products {
    fn own(
        &mut self,
        q: Read<'_, Tag>,
        k: Read<'_, Tag>,
        v: Read<'_, Tag>,
        mut o: Write<'_, Tag>,
        stream: &Stream<Host<Tag>>,
    ) -> Result<()> {
        stream.launch((&q, &k, &v, &mut o), |(q, k, v, o), ()| {
            (0..o.len()).for_each(|at| o[at] = q[at] * k[at] * v[at]);
        })
    }

    fn attend(
        &mut self,
        of: usize,
        q: Read<'_, Tag>,
        k: Read<'_, Tag>,
        v: Read<'_, Tag>,
        mut o: Write<'_, Tag>,
        stream: &Stream<Host<Tag>>,
    ) -> Result<()> {
        stream.launch((&q, &k, &v, &mut o), move |(q, k, v, o), ()| {
            (0..o.len()).for_each(|at| o[at] += (of + 2) as f64 * q[at] * k[at] * v[at]);
        })
    }
}

#[test]
fn blocks_in_turns() {
    const LEN: usize = 4;
    let values = |what: usize, rank: usize, run: usize| -> Vec<f64> {
        (0..LEN).map(|at| (13 * what + 7 * rank + 3 * run + at) as f64).collect()
    };
    for n in 1..=8 {
        ranks!(n, |comm| {
            let rank = comm.rank().index();
            let params = attention::Params { len: LEN };
            let mut plan = attention::bind::<f64, _>(&mut comm, params)?;
            for timing in timings(&comm) {
                plan.set_timing(timing);
                let all =
                    |what| buffers(comm.device(), (0..RUNS).map(|run| values(what, rank, run)));
                let (q, k, v, mut o) = (all(1)?, all(2)?, all(3)?, all(4)?);
                for (run, o) in o.iter_mut().enumerate() {
                    let (q, k, v) = (&q[run], &k[run], &v[run]);
                    plan.run(&comm, attention::Buffers { q, k, v, o }, &mut Products)?;
                }
                for (run, o) in o.iter().enumerate() {
                    let q = values(1, rank, run);
                    let sum = |at: usize| -> f64 {
                        let of = |other: usize| {
                            let by = if other == rank { 1.0 } else { (other + 2) as f64 };
                            by * q[at] * values(2, other, run)[at] * values(3, other, run)[at]
                        };
                        (0..n).map(of).sum()
                    };
                    let wanted: Vec<f64> = (0..LEN).map(sum).collect();
                    assert_eq!(o.to_vec()?, wanted, "{n} ranks, {timing:?}, run {run}");
                }
            }
        });
    }
}
