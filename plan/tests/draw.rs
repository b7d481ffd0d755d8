mod schedules;
#[test]
fn look() {
    for s in [schedules::ring_exchange(4, 8), schedules::halo(4), schedules::pipeline(4, 4), schedules::one_f1b(4, 6), schedules::one_f1b(8, 8), schedules::hierarchical(2, 4, 64), schedules::gradients(4, 64, 256, true)] {
        println!("{}", s.schedule.to_text(&s.plan));
    }
    let s = schedules::one_f1b(2,2);
    println!("{}", s.schedule.to_mermaid(&s.plan));
    let s = schedules::hierarchical(2,2,4);
    println!("{}", s.schedule.to_mermaid(&s.plan));
}
#[test]
fn valid() { for s in [schedules::ring_exchange(4, 8), schedules::halo(4), schedules::pipeline(4, 4)] { println!("{:?}", s.plan.validate()); } }
