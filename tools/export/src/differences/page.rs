//! Owns differences as one page: the outcome first, then what it rests on, in the style of the
//! report's page, which the page's policy allows by its hash. It needs no scripts. Refuses to
//! judge, and to let a name be markup.

use crate::differences as render;
use crate::differences::{SECTIONS, name, rows};
use crate::page::html::Html;
use crate::page::{STYLE, STYLE_HASH};
use clscope_compare::diff::{Diff, Row};
use clscope_compare::outcome::Outcome;
use clscope_io::text::count;

/// The page, with `most` rows of each kind.
pub fn html(diff: &Diff, most: usize) -> String {
    let mut page = Html::default();
    page.raw("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'sha256-")
        .put(STYLE_HASH)
        .raw("'\">\n<meta name=\"referrer\" content=\"no-referrer\">\n<title>Differences – clscope</title>\n<style>")
        .raw(STYLE)
        .raw("</style>\n</head>\n<body>\n<header><h1>Differences</h1><span class=\"soft\">clscope ")
        .put(env!("CARGO_PKG_VERSION"))
        .raw("</span></header>\n");
    lead(&mut page, diff);
    for (section, title) in SECTIONS {
        let (shown, left) = rows(diff, section, most);
        if !shown.is_empty() {
            table(&mut page, title, &shown, left);
        }
    }
    page.raw("</body>\n</html>\n");
    page.finish()
}

/// The outcome, what forbids one, and what the sides are.
fn lead(page: &mut Html, diff: &Diff) {
    let is_well = diff.comparable && diff.unjudged.is_empty() && diff.broken().count() == 0;
    page.raw("<ul class=\"findings\">\n<li class=\"").raw(if is_well { "note" } else { "error" });
    page.raw("\"><strong>").sentence(&render::outcomes(diff)).raw("</strong></li>\n");
    let doubts = render::doubts(diff).into_iter().map(|text| ("error", text));
    for (class, text) in doubts.chain(render::changes(diff).map(|text| ("warning", text))) {
        page.raw("<li class=\"").raw(class).raw("\">").prose(&text).raw("</li>\n");
    }
    page.raw("</ul>\n");
    for text in render::sides(diff).into_iter().chain(render::notes(diff)) {
        page.raw("<p class=\"soft\">").prose(&text).raw("</p>\n");
    }
}

fn table(page: &mut Html, title: &'static str, shown: &[&Row], left: usize) {
    page.raw("<h2>").raw(title).raw("</h2>\n");
    page.raw("<div class=\"wide\"><table>\n<thead><tr><th>name</th><th>figure</th><th class=\"n\">base</th><th class=\"n\">new</th><th class=\"n\">change</th><th>outcome</th></tr></thead>\n<tbody>\n");
    for row in shown {
        let class = match row.outcome {
            _ if row.breaks => "over",
            Outcome::More | Outcome::Added => "rose",
            Outcome::Less | Outcome::Gone => "fell",
            Outcome::Same | Outcome::Unclear | Outcome::NotJudged => "row",
        };
        page.raw("<tr class=\"").raw(class).raw("\"><td class=\"name\">").put(name(row, false));
        page.raw("</td><td class=\"of\">").raw(render::metric(row));
        for side in [row.base, row.new] {
            page.raw("</td><td class=\"n\"");
            if let Some(exact) = side.filter(|exact| exact.is_finite()) {
                page.raw(" data-v=\"").put(exact).raw("\"");
            }
            page.raw(">").put(render::figure(row.metric, side));
        }
        page.raw("</td><td class=\"n\">").put(render::change(row));
        page.raw("</td><td class=\"outcome\">").put(render::outcome(row)).raw("</td></tr>\n");
    }
    page.raw("</tbody></table></div>\n");
    if let Some(assumed) = render::assumption(shown) {
        page.raw("<p class=\"soft\">Changes with their intervals, ").put(assumed).raw(".</p>\n");
    }
    if left > 0 {
        let left = count(left as u64, "more row", "more rows");
        page.raw("<p class=\"soft\">And ").put(left);
        page.raw(": <code>clscope diff --limit 0</code> shows all.</p>\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::differences::tests::differences;

    #[test]
    fn the_outcome_comes_first_and_the_style_is_the_reports() {
        let mut diff = differences();
        let text = html(&diff, 9);
        let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part} is not in {text}"));
        assert!(at("1 figure is over the limit") < at("limit cannot be judged: "));
        assert!(at("limit cannot be judged") < at("changed: "));
        assert!(at("changed: ") < at("base: "));
        assert!(at("base: ") < at("<tr class=\"over\">"));
        assert!(text.contains(STYLE) && text.contains(STYLE_HASH) && !text.contains("<script"));
        assert!(
            text.matches("<div class=\"wide\"><table>").count() == text.matches("<table").count()
        );
        for row in &mut diff.rows {
            (row.breaks, row.outcome) = (false, Outcome::Same);
        }
        diff.unjudged.clear();
        let quiet = html(&diff, 1);
        assert!(quiet.contains("<li class=\"note\"><strong>No figure surely changed"));
        assert!(quiet.contains("And 2 more rows"), "{quiet}");
    }
}
