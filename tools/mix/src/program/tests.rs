//! Programs put together by hand: their loops, what a launch runs, and what is refused.

use super::*;

fn instruction(class: Class, flop: u32, bytes: u32) -> Instruction {
    Instruction { flop, bytes, ..Instruction::new(class) }
}

fn program() -> Program {
    Program {
        functions: vec![Function {
            name: "k".into(),
            kernel: true,
            blocks: 0..2,
            arguments: BTreeSet::new(),
            in_place: BTreeSet::new(),
            data: Data::default(),
        }],
        blocks: vec![
            Block { instructions: vec![instruction(Class::LoadGlobal, 0, 4)] },
            Block {
                instructions: vec![
                    instruction(Class::SingleFma, 2, 0),
                    instruction(Class::Branch, 0, 0),
                ],
            },
        ],
        ..Program::default()
    }
}

#[test]
fn blocks_times_counts_are_the_mix() {
    let program = program();
    let counts = Counts {
        threads: vec![64, 640],
        warps: Some(vec![2, 40]),
        transactions: BTreeMap::from([(Class::LoadGlobal, 8)]),
        shards: Vec::new(),
        reuse: None,
    };
    let mix = program.mix(&counts);
    assert_eq!((mix.flop(Precision::Single), mix.flop(Precision::Double)), (1280, 0));
    assert_eq!(mix.bytes(Space::Global), 256);
    assert_eq!(program.entered("k", &counts), Some(64));
    let of = |class| mix.classes[&class].transactions;
    assert_eq!((of(Class::LoadGlobal), of(Class::SingleFma)), (Some(8), None));
    let total = mix.total();
    assert_eq!((total.threads, total.warps), (64 + 2 * 640, Some(2 + 2 * 40)));
    let busy = mix.lanes_busy(32).unwrap();
    assert!((busy - 1344.0 / (82.0 * 32.0)).abs() < 1e-12);
}

#[test]
fn loops_are_what_leads_back() {
    let found =
        |edges: &[(usize, usize)]| loops(0, edges.iter().copied()).into_iter().collect::<Vec<_>>();
    // A branch to a block that lies before in the text is no loop.
    assert!(found(&[(0, 2), (2, 1), (0, 1)]).is_empty());
    assert_eq!(found(&[(0, 1), (1, 1), (1, 2)]), [(1, 1)]);
    // One in the other; and a block that cannot be reached.
    let edges = [(0, 1), (1, 2), (2, 2), (2, 3), (3, 1), (3, 4), (9, 0)];
    assert_eq!(found(&edges), [(1, 3), (2, 2)]);
}

/// What stands in more loops is executed more often, and nothing of other kernels is.
#[test]
fn what_code_does_by_its_statements_follows_its_loops() {
    let mut program = program();
    let once = program.by_code("k", 64, Some(32)).unwrap().total();
    assert_eq!((once.threads, once.warps), (64 + 2 * 64, Some(2 + 2 * 2)));
    program.loops.insert(1, 1);
    let looped = program.by_code("k", 64, None).unwrap().total();
    assert_eq!((looped.threads, looped.warps), (64 + 2 * 64 * TURNS, None));
    assert_eq!(program.by_code("other", 64, None), None);
}

/// What is not known of one launch is not known of several, in any order; launches in which nothing
/// of a class ran lack nothing.
#[test]
fn sums_are_known_where_each_part_is() {
    let of = |threads, transactions| {
        let tally = Tally { threads, warps: Some(1), transactions, ..Tally::default() };
        let classes = BTreeMap::from([(Class::LoadGlobal, tally)]);
        Mix { classes, ..Mix::default() }
    };
    let sum = |parts: &[Mix]| {
        let mut out = Mix::default();
        parts.iter().for_each(|part| out.add(part));
        out
    };
    let (known, unknown, none) = (of(32, Some(4)), of(32, None), Mix::default());
    for parts in [[&known, &unknown, &none], [&none, &unknown, &known], [&unknown, &none, &known]] {
        let all = sum(&parts.map(Clone::clone));
        assert_eq!(all.classes[&Class::LoadGlobal].threads, 64);
        assert_eq!(all.sectors(), None);
    }
    let all = sum(&[known.clone(), none, known]);
    assert_eq!(all.sectors().map(|of| (of.warps, of.transactions)), Some((2, 8)));
}

#[test]
fn shards_are_added_and_counted() {
    let mut counted = Counted {
        code: Vec::new(),
        program: program(),
        shards: 2,
        warps: true,
        accesses: Vec::new(),
        reuse: 0,
        dump: None,
    };
    assert_eq!(counted.words(), 8);
    let counts = counted.read(&[1, 2, 3, 4, 10, 20, 30, u64::MAX]).unwrap();
    assert_eq!(counts.threads, [11, 33]);
    assert_eq!(counts.warps, Some(vec![22, u64::MAX]));
    // Of warps: 2 of one instruction and 4 of two; the other copy overflows.
    assert_eq!(counts.shards, [2 + 2 * 4, u64::MAX]);
    assert_eq!(counted.read(&[0; 7]), Err(Error::Counters { found: 7, expected: 8 }));
    // Two accesses with counters of their own, one of a single address, one not known.
    let access = |block, class, transactions| Access { block, class, transactions };
    counted.accesses = vec![
        access(0, Class::LoadGlobal, Transactions::Counter(0)),
        access(1, Class::LoadGlobal, Transactions::OneAWarp),
        access(1, Class::LoadLocal, Transactions::Counter(1)),
        access(1, Class::LoadLocal, Transactions::Unknown),
        access(0, Class::StoreGlobal, Transactions::Unknown),
    ];
    let counts = counted.read(&[1, 0, 3, 4, 70, 9, 10, 0, 30, 5, 7, 9]).unwrap();
    // Of the block that no warp entered nothing is missing.
    let known = [(Class::LoadGlobal, 77 + 9), (Class::StoreGlobal, 0)];
    assert_eq!(counts.transactions, BTreeMap::from(known));
}

#[test]
fn the_longest_group_is_what_typical_ones_leave_of_its_copy() {
    let of = |shards: &[u64]| Counts { shards: shards.to_vec(), ..Counts::default() };
    // 512 groups of 16 on 64 copies, and one of them of 400,000.
    let mut shards = vec![8 * 16; 64];
    shards[63] += 400_000 - 16;
    assert_eq!(of(&shards).longest_group(512), Some(400_000));
    // An eighth of all take ten times as long: none of them stands out.
    let bands: Vec<u64> = (0..64).map(|n| if n % 8 == 5 { 8 * 160 } else { 8 * 16 }).collect();
    assert_eq!(of(&bands).longest_group(512), Some(160));
    // All alike; fewer groups than copies; one copy.
    assert_eq!(of(&[128; 64]).longest_group(512), Some(16));
    assert_eq!(of(&[7, 9, 0, 0]).longest_group(2), Some(9));
    assert_eq!(of(&[128]).longest_group(512), None);
    assert_eq!(of(&[0, 0]).longest_group(512), None);
}
