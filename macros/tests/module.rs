//! The modules of plans compile, under strict lints, wherever a module may stand.

#![deny(warnings, missing_docs, unreachable_pub, clippy::all)]

mod stub;

use std::marker::PhantomData;

use stub::plan::{Slices, Swapped};
use stub::{Buffer, Communicator, Host, Result, Slice, SliceMut, Stream, Window, World};
use typed_nccl_macros::plan;

plan! { (crate::stub)
    /// Sums gradients bucket by bucket, while backward still runs.
    pub grad_sync<T: Float>(n: Ranks, k: usize, sizes: [usize; k]) {
        /// The gradients.
        inout g[i in 0..k]: [T; sizes[i]];
        stream compute, net;
        for i in (0..k).rev() {
            /// Makes the gradients of bucket `i`.
            run first(i, write g[i]) on compute;
            all_reduce(g[i], avg) on net after compute;
        }
        run apply(read g) on compute after net;
    }
}

plan! { (crate::stub) ring<T: Element>(n: Ranks, len: usize) {
    in a: [T; len];
    out b: [T; len];
    send a to (rank + 1) % n into b;
} }

mod private {
    typed_nccl_macros::plan! { (crate::stub)
        #[capture]
        pub(crate) halo<T: Element>(n: Ranks, m: usize, h: usize) where n >= 3, m >= 4 * h {
            inout swapped window u: [T; m];
            signal lo, hi;
            stream net, cmp;
            let left = (rank - 1) % n;
            let right = (rank + 1) % n;
            put u[h..2 * h] to left into u[m - h..m] signal hi on net;
            put u[m - 2 * h..m - h] to right into u[..h] signal lo on net;
            run interior(read u[h..m - h], write u.next[2 * h..m - 2 * h]) on cmp;
            wait hi from right, lo from left on net;
            run first(read u, write u.next[h..2 * h], write u.next[m - 2 * h..m - h]) on cmp after net;
    } }
}

plan! { (crate::stub) barrier(n: Ranks in 1..=8) {
    signal arrived;
    for k in 1..n { signal arrived to (rank + k) % n; }
    for k in 1..n { wait arrived from (rank - k) % n; }
} }

plan! { (crate::stub) pub mixed<A: Element, B: Numeric>(rows: Ranks, cols: Ranks in [2, 4], len: usize)
where
    len % cols == 0,
{
    in a: [A; len];
    local b: [B; len];
    inout bytes: [u8; len];
    in window w: [bf16; len];
    comm row along cols;
    run first(update bytes, read a, read w, write b);
    row.all_reduce(b, sum);
    row.all_gather(bytes);
    run last(read b, write bytes[len..], rank, len - 1);
} }

struct Model;

impl<W: World> grad_sync::Steps<f32, W> for Model {
    fn first(
        &mut self,
        _: usize,
        _: SliceMut<'_, f32, W::Device>,
        _: &Stream<W::Device>,
    ) -> Result<()> {
        Ok(())
    }

    fn apply(&mut self, _: Slices<'_, f32, W>, _: &Stream<W::Device>) -> Result<()> {
        Ok(())
    }
}

impl<W: World> private::halo::Steps<f32, W> for Model {
    fn interior(
        &mut self,
        _: Slice<'_, f32, W::Device>,
        _: SliceMut<'_, f32, W::Device>,
        _: &Stream<W::Device>,
    ) -> Result<()> {
        Ok(())
    }

    fn first(
        &mut self,
        _: Slice<'_, f32, W::Device>,
        _: SliceMut<'_, f32, W::Device>,
        _: SliceMut<'_, f32, W::Device>,
        _: &Stream<W::Device>,
    ) -> Result<()> {
        Ok(())
    }
}

impl<W: World> mixed::Steps<u8, f32, W> for Model {
    fn first(
        &mut self,
        _: SliceMut<'_, u8, W::Device>,
        _: Slice<'_, u8, W::Device>,
        _: Slice<'_, stub::bf16, W::Device>,
        _: SliceMut<'_, f32, W::Device>,
        _: &Stream<W::Device>,
    ) -> Result<()> {
        Ok(())
    }

    fn last(
        &mut self,
        _: Slice<'_, f32, W::Device>,
        _: SliceMut<'_, u8, W::Device>,
        _: usize,
        _: usize,
        _: &Stream<W::Device>,
    ) -> Result<()> {
        Ok(())
    }
}

fn comm() -> Communicator<Host> {
    Communicator(PhantomData)
}

fn buffer<T>() -> Buffer<T, Host> {
    Buffer(PhantomData)
}

/// The line of this file that begins so.
fn line(begins: &str) -> usize {
    let mut lines = include_str!("module.rs").lines().map(str::trim_start);
    lines.position(|line| line.starts_with(begins)).expect("a line") + 1
}

#[test]
fn an_array_of_buffers() -> Result<()> {
    let (mut comm, sizes) = (comm(), [3, 4]);
    let mut bound =
        grad_sync::bind::<f32, _>(&mut comm, grad_sync::Params { k: 2, sizes: &sizes })?;
    let mut g = [buffer(), buffer()];
    bound.run(&comm, grad_sync::Buffers { g: &mut g }, &mut Model)?;
    let lines =
        ["for i in (0..k)", "run first(i,", "all_reduce(g[i]", "run apply(read g)"].map(line);
    let [backwards, first, reduce, apply] = lines;
    let noted = format!(
        "grad_sync\nk = 2\nsizes = [3, 4]\nT is f32\nwrite g\nwrite 0\nlines {backwards}, {first}, {reduce}, {apply}"
    );
    assert_eq!(bound.describe(), noted);
    assert_eq!(grad_sync::plan().steps.len(), 2);
    Ok(())
}

#[test]
fn without_steps() -> Result<()> {
    let mut comm = comm();
    let mut bound = ring::bind::<u8, _>(&mut comm, ring::Params { len: 3 })?;
    bound.run(&comm, ring::Buffers { a: &buffer(), b: &mut buffer() })
}

#[test]
fn two_copies_that_swap() -> Result<()> {
    let mut comm = comm();
    let mut bound = private::halo::bind(&mut comm, private::halo::Params { m: 8, h: 1 })?;
    let window = || Window::<f32, Host>(PhantomData);
    let mut u = Swapped(window(), window());
    bound.run(&comm, private::halo::Buffers { u: &mut u }, &mut Model)?;
    assert!(bound.describe().contains("read 0, write 0, write 1"), "{}", bound.describe());
    Ok(())
}

#[test]
fn nothing_to_give() -> Result<()> {
    let mut comm = comm();
    let mut bound = barrier::bind(&mut comm)?;
    bound.run(&comm)
}

#[test]
fn several_types_on_a_mesh() -> Result<()> {
    let mut comm = comm();
    let params = mixed::Params { rows: 2, cols: 2, len: 4 };
    let mut bound = mixed::bind::<u8, f32, _>(&mut comm, params)?;
    let buffers = mixed::Buffers { a: &buffer(), bytes: &mut buffer(), w: &Window(PhantomData) };
    bound.run(&comm, buffers, &mut Model)?;
    let noted = bound.describe();
    assert!(
        noted.starts_with("mixed\nrows: 2 ranks\ncols: 2 ranks\nlen = 4\nA is u8\nB is f32\n"),
        "{noted}"
    );
    // What is updated counts among the reads too.
    assert!(noted.contains("write 0, read 1, read 2, write 1"), "{noted}");
    Ok(())
}

fn inside<T: stub::Float, W: World>(
    mut comm: Communicator<W>,
    x: &mut Buffer<T, W::Device>,
) -> Result<()> {
    plan! { (crate::stub) own<T: Float>(n: Ranks, len: usize) {
        inout x: [T; len];
        all_reduce(x, avg);
    } }
    own::bind(&mut comm, own::Params { len: 3 })?.run(&comm, own::Buffers { x })
}

#[test]
fn inside_a_generic_function() -> Result<()> {
    inside(comm(), &mut buffer::<f32>())
}
