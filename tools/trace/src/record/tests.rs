//! Sizes, texts and numbers of records.

use super::*;

#[test]
fn errors_have_names() {
    assert_eq!(error_text(-30), "CL_INVALID_VALUE (-30)");
    assert_eq!(error_text(-99_999), "-99999");
    assert_eq!(error_text(RESULT_UNKNOWN), "failed without a code");
}

// Sizes are the product's promise: fresh memory is what recording costs.
#[test]
fn sizes_are_as_promised() {
    assert_eq!(size_of_val(&plain(1, 2, 3, 4, 5)), 16);
    let c = Command {
        function: 1,
        duration: 2,
        result: 0,
        id: 3,
        queue: 4,
        object: 5,
        object2: 6,
        geometry: 7,
        kind: CommandKind::NdRange,
        flags: 0,
        extra: 0,
        bytes: 8,
        waits: Waits(&[]),
        site: 0,
    };
    let (_, words) = timing(3, [10, 20, 30, 40], 0);
    assert!(size_of_val(&command(&c, 0)) + words * 8 <= 96);
}

#[test]
fn probabilities_are_told_by_kernels_alone() {
    let command = |kind, extra| Command {
        function: 1,
        duration: 2,
        result: 0,
        id: 3,
        queue: 4,
        object: 5,
        object2: 6,
        geometry: 7,
        kind,
        flags: 0,
        extra,
        bytes: 8,
        waits: Waits(&[]),
        site: 0,
    };
    for (kind, extra, probability) in [
        (CommandKind::NdRange, 0, Some(1.0)),
        (CommandKind::NdRange, probability_bits(1.0), Some(1.0)),
        (CommandKind::Task, probability_bits(0.25), Some(0.25)),
        (CommandKind::NdRange, f32::NAN.to_bits(), None),
        (CommandKind::NdRange, 2f32.to_bits(), None),
        (CommandKind::NdRange, (-0.5f32).to_bits(), None),
        (CommandKind::MapBuffer, 3, Some(1.0)),
    ] {
        assert_eq!(command(kind, extra).probability(), probability, "{kind:?} {extra:#x}");
    }
}

#[test]
fn kinds_keep_their_numbers() {
    for kind in CommandKind::ALL {
        assert_eq!(CommandKind::from_u8(*kind as u8), *kind);
    }
    assert_eq!(CommandKind::from_u8(250), CommandKind::Other);
}
