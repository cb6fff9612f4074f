"""From outcomes to the table's numbers and comparisons, and to figures."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from ccml import datasets
from ccml.experiments import gallery, paper, protocol, records, retrieval, sandwich, table1
from ccml.experiments.cells import DEPTH, SHOWN, Cell, Outcome
from ccml.experiments.reproduction import Plan

ABOUT = {
    "seconds": 2.0, "commit": "abc", "machine": "m", "n_test": 4, "n_components": [3, 2],
    "stand_in": False, "notes": [],
}  # fmt: skip


def outcome(knn, ccknn=None, ndcg=1.0):
    wrong = np.array([knn, knn if ccknn is None else ccknn], dtype=bool)
    curve = np.full(DEPTH, ndcg)
    nearest = np.zeros((wrong.shape[1], SHOWN), np.int32)
    return Outcome(wrong, curve, curve / 2, nearest, dict(ABOUT))


def cell_of(dataset, row, seed=0):
    return Cell(dataset, row, seed, protocol.settings_of(dataset, row))


def test_the_table_has_the_rows_of_the_protocol():
    assert tuple(records.ROWS) == protocol.ROWS
    assert tuple(protocol.LINEAR) == records.LINEAR + records.VARIANTS
    assert set(records.DATASETS) == set(protocol.NAMES)


class TestCells:
    def test_are_all_rows_of_all_data_sets(self):
        cells = table1.cells(["isolet", "mnist"])
        rows = {(cell.dataset, cell.row) for cell in cells}
        assert rows == {(n, row) for n in ("isolet", "mnist") for row in protocol.rows_of(n)}

    def test_without_a_learner_one_seed_is_enough(self):
        cells = table1.cells(["isolet"], ["Euclidean", "CCML"])
        seeds = [cell.seed for cell in cells if cell.row == "Euclidean"]
        assert seeds == [0]
        assert len(cells) == 1 + len(table1.SEEDS["isolet"])
        assert len(table1.cells(["wine"], ["Euclidean"])) == len(table1.SEEDS["wine"])  # folds

    def test_the_first_seed_of_all_comes_first(self):
        seeds = [cell.seed for cell in table1.cells(["wine", "isolet"], ["CCML"])]
        assert seeds == sorted(seeds)

    def test_other_settings_go_first_where_there_are_some(self, tmp_path):
        (tmp_path / "wine.toml").write_text("[NCA]\nknn = 7\nlearner = {n_components = 4}\n")
        nca, lmnn = table1.cells(["wine"], ["NCA", "LMNN"], {"wine": [0]}, tmp_path)
        assert {nca.row: nca, lmnn.row: lmnn}["NCA"].settings.knn == 7
        assert {nca.row: nca, lmnn.row: lmnn}["LMNN"].settings == protocol.settings_of(
            "wine", "LMNN"
        )


def test_records_average_over_the_seeds():
    results = {
        cell_of("isolet", "CCML", 0): outcome([1, 0, 0, 0], [0, 0, 0, 0]),
        cell_of("isolet", "CCML", 1): outcome([1, 1, 0, 0], [0, 0, 0, 0]),
    }
    knn, ccknn = table1.records(results)
    assert (knn.rule, knn.error, knn.spread) == ("knn", 37.5, 17.67767)  # of a sample
    assert (ccknn.rule, ccknn.error, ccknn.spread) == ("ccknn", 0.0, 0.0)
    assert (knn.paper, ccknn.paper) == paper.TABLE1["isolet"]["CCML"]
    assert knn.seeds == (0, 1)
    assert knn.seconds == 4
    assert knn.settings["dimensions"] == 3
    assert ccknn.settings["dimensions"] == 2
    assert knn.command == "ccml reproduce table1 --datasets isolet --rows CCML --seeds 2"


@pytest.mark.parametrize(
    ("name", "row", "n_seeds", "options"),
    [
        ("isolet", "CCML", 3, ""),
        ("isolet", "CCML", 1, " --seeds 1"),
        ("isolet", "CCML", 4, " --seeds 4"),
        ("isolet", "Euclidean", 1, ""),
    ],
)
def test_the_command_says_how_many_seeds_if_they_are_not_as_usual(name, row, n_seeds, options):
    results = {cell_of(name, row, seed): outcome([1], [0]) for seed in range(n_seeds)}
    command = table1.records(results)[0].command
    assert command == f"ccml reproduce table1 --datasets {name} --rows {row}{options}"


def test_the_command_says_that_settings_come_from_a_search():
    settings = replace(protocol.settings_of("mnist", "CCML"), knn=11)
    results = {Cell("mnist", "CCML", 0, settings): outcome([1], [0])}
    (record, _) = table1.records(results, " --tune 0 --out there")
    assert record.command.endswith("--rows CCML --tune 0 --out there")
    as_usual = {cell_of("mnist", "CCML"): outcome([1], [0])}
    (record, _) = table1.records(as_usual, " --tune 0 --out there")
    assert record.command.endswith("--rows CCML")


def test_records_tell_all_of_their_seeds():
    one, other = outcome([1]), outcome([0])
    other.about.update(
        commit="def",
        machine="another, with a comma",
        notes=["CCML hadn't converged after 5 epochs."],
    )
    results = {cell_of("mnist", "CCML", 0): one, cell_of("mnist", "CCML", 1): other}
    found = table1.records(results)
    assert found[0].commit == "abc; def"
    assert records.all_of("commit", found) == ["abc", "def"]
    assert found[0].machine == "m; another, with a comma"
    assert found[0].notes == ("CCML hadn't converged after 5 epochs.",)


def test_how_settings_were_chosen_is_noted_unless_others_are_used():
    note = protocol.note_of("wine", "CCML")
    assert "foldings of the same 178 rows" in note
    cell = cell_of("wine", "CCML", 0)
    assert table1.records({cell: outcome([1, 0])})[0].notes == (note,)
    other = replace(cell, settings=replace(cell.settings, knn=1))
    assert table1.records({other: outcome([1, 0])})[0].notes == ()


def test_a_row_with_a_failure_has_no_number_but_a_reason():
    results = {
        cell_of("isolet", "CCML", 0): outcome([1, 0, 0, 0]),
        cell_of("isolet", "CCML", 1): "it isn't here",
    }
    for record in table1.records(results):
        assert record.error is None
        assert record.reason == "it isn't here"


def test_rows_that_the_paper_has_not_have_no_figure_of_it():
    (knn, _) = table1.records({cell_of("wine", "KNCA"): outcome([1, 0])})
    assert knn.paper is None


def test_comparisons_are_paired_by_test_row():
    rng = np.random.default_rng(0)
    own = rng.random((2, 1000)) < 0.05
    other = own | (rng.random((2, 1000)) < 0.03)  # wrong wherever CCML is, and elsewhere
    results = {
        cell_of("isolet", "NCA"): outcome(*other),
        cell_of("isolet", "CCML"): outcome(*own),
        cell_of("isolet", "LMNN"): outcome(*own),
        cell_of("isolet", "CCML-log"): outcome(*own),  # not another learner
    }
    found = {(c.row, c.rule): c for c in table1.comparisons(results)}
    assert set(found) == {(row, rule) for row in ("NCA", "LMNN") for rule in ("knn", "ccknn")}
    nca, lmnn = found["NCA", "knn"], found["LMNN", "knn"]
    assert nca.difference == pytest.approx(100 * (other[0].mean() - own[0].mean()), abs=1e-3)
    assert nca.p_value < 1e-4
    assert nca.n == 1000
    assert (lmnn.difference, lmnn.p_value) == (0, 1)


def test_views_of_a_toy_are_one_in_a_comparison(monkeypatch):
    toys = datasets.make_toy_norb(n_instances=4, n_elevations=2, n_azimuths=4, n_lightings=1)
    monkeypatch.setattr(protocol, "load", lambda name: toys)
    own = np.zeros(len(toys.test), dtype=bool)
    one_toy = (toys.y[toys.test] == 0) & (
        toys.factors["instance"][toys.test] == toys.factors["instance"][toys.test[0]]
    )
    results = {
        cell_of("norb", "NCA"): outcome(own | one_toy),
        cell_of("norb", "CCML"): outcome(own),
    }
    found = next(table1.comparisons(results))
    assert found.difference == pytest.approx(100 * one_toy.mean(), abs=1e-3)
    assert found.n == len(own) / one_toy.sum()
    assert found.p_value > 0.3  # one toy of ten, though many views


def test_a_row_without_a_number_is_not_compared():
    results = {
        cell_of("isolet", "NCA", 0): outcome([1, 0, 0, 0]),
        cell_of("isolet", "NCA", 1): "it failed",
        cell_of("isolet", "CCML"): outcome([0, 0, 0, 0]),
    }
    assert not list(table1.comparisons(results))


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("CCML-accuracy", {"loss": "expected-accuracy"}),
        ("CCML-per-class", {"objective": "per-class"}),
        ("ConvCCML-2-shifts", {"layers": 2, "max_shift": 2}),
    ],
)
def test_settings_say_what_a_row_is(row, said):
    (record, _) = table1.records({cell_of("mnist", row): outcome([1])})
    assert said.items() <= record.settings.items()


class TestPlan:
    def test_is_the_papers_by_default(self):
        plan = Plan.of()
        assert {cell.dataset for cell in plan.cells} == set(paper.TABLE1)
        assert plan.targets == ("table1", "sandwich", "retrieval", "gallery")

    def test_figures_need_few_cells(self):
        assert not Plan.of("sandwich").cells
        retrieved, shown = Plan.of("retrieval"), Plan.of("gallery")
        assert {cell.row for cell in retrieved.cells} == set(retrieval.ROWS) - {"ConvCCML-1"}
        assert {cell.dataset for cell in retrieved.cells} == {"isolet", "mnist", "norb"}
        assert {cell.row for cell in shown.cells} == set(gallery.ROWS) - {"ConvCCML-1"}
        assert {(cell.dataset, cell.seed) for cell in shown.cells} == {("mnist", 0), ("norb", 0)}

    @pytest.mark.parametrize(
        ("n_seeds", "wine", "mnist", "options"),
        [
            (None, 10, 1, ""),
            (2, 2, 2, " --seeds 2"),
            ({"mnist": 2}, 10, 2, " --seeds mnist=2"),
            ({"mnist": 3, "wine": 1}, 1, 3, " --seeds mnist=3,wine=1"),
        ],
    )
    def test_as_many_seeds_as_asked_for(self, n_seeds, wine, mnist, options):
        plan = Plan.of("table1", ["wine", "mnist"], ["CCML"], n_seeds=n_seeds)
        assert Counter(cell.dataset for cell in plan.cells) == {"wine": wine, "mnist": mnist}
        assert plan.options == f" --datasets wine,mnist --rows CCML{options}"

    def test_a_figure_has_one_network(self):
        networks = {cell.row for cell in Plan.of("gallery").cells} & set(protocol.NETWORKS)
        assert networks == {"ConvCCML-2"}
        plan = Plan.of("gallery", rows=["Euclidean", "CCML", "ConvCCML-1"])
        assert {cell.row for cell in plan.cells} == {"Euclidean", "CCML", "ConvCCML-1"}

    def test_tuned_settings_are_in_the_command(self, tmp_path):
        plan = Plan.of("table1", ["wine"], settings=tmp_path / "settings")
        assert plan.options == f" --datasets wine --tune 0 --out {tmp_path}"

    def test_quick_needs_no_download(self):
        assert {cell.dataset for cell in Plan.of(quick=True).cells} == {"wine", "digits"}

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("tabel1",), "did you mean 'table1'"),
            (("table1", ["wine", "isolett"]), "did you mean 'isolet'"),
            (("table1", ["wine"], ["CCML", "LMMN"]), "did you mean 'LMNN'"),
            (("table1", ["wine"], ["ConvCCML-2"]), "The data sets that have it: mnist, norb"),
            (("table1", []), "must name at least one"),
            (("table1", None, []), "must name at least one"),
            (("retrieval", ["wine"]), "wine has none of its own"),
            (("retrieval", None, ["ITML"]), "name some of these"),
            (("gallery", ["wine", "isolet"]), "there are none of wine and isolet"),
            (("gallery", ["mnist"], ["CCML", "Euclidean"]), "name these rows too"),
        ],
    )
    def test_mistakes(self, arguments, message):
        with pytest.raises(ValueError, match=message):
            Plan.of(*arguments)

    def test_what_the_quick_form_has(self):
        with pytest.raises(ValueError, match="The quick form has no mnist, only wine and digits"):
            Plan.of(datasets=["mnist"], quick=True)


def test_sandwich_embeddings_repair_the_neighbours(tmp_path):
    errors = sandwich.figure(tmp_path / "new" / "sandwich.svg")
    assert errors.pop("input space") > 0.9
    assert max(errors.values()) == 0
    assert list(errors) == [*(f"CCML, k = {k}" for k in (1, 2, 4, 6, 8)), "NCA", "ITML"]
    assert b"<svg" in (tmp_path / "new" / "sandwich.svg").read_bytes()


def test_retrieval_says_where_the_papers_order_does_not_hold(tmp_path):
    results = {
        cell_of("isolet", "CCML", seed): outcome([0], ndcg=ndcg)
        for seed, ndcg in enumerate([0.8, 0.9])
    }
    results[cell_of("isolet", "NCA")] = outcome([0], ndcg=0.84)
    results[cell_of("mnist", "CCML")] = outcome([0], ndcg=0.9)
    results[cell_of("mnist", "LMNN")] = outcome([0], ndcg=0.95)
    results[cell_of("mnist", "ConvCCML-2")] = outcome([0], ndcg=0.99)
    assert retrieval.curves(results, "ndcg")["ISOLET"]["CCML"][0] == pytest.approx(0.85)
    isolet, mnist = retrieval.figure(results, tmp_path / "retrieval.svg")
    assert isolet == "ISOLET: CCML is above NCA at every k."
    assert mnist == (
        "MNIST: CCML is not above LMNN at k = 1 to 100 (by up to 0.0500); ConvCCML is above LMNN, "
        "CCML at every k."
    )
    once = (tmp_path / "retrieval.svg").read_bytes()
    retrieval.figure(results, tmp_path / "retrieval.svg")
    assert (tmp_path / "retrieval.svg").read_bytes() == once


def test_retrieval_names_every_k_where_the_order_does_not_hold(tmp_path):
    nca = np.full(DEPTH, 0.8)
    nca[[0, 80, 81, 82]] = 0.9
    results = {
        cell_of("isolet", "CCML"): outcome([0], ndcg=0.9),
        cell_of("isolet", "NCA"): outcome([0], ndcg=nca),
    }
    (sentence,) = retrieval.figure(results, tmp_path / "retrieval.svg")
    assert sentence == "ISOLET: CCML is not above NCA at k = 1, 81 to 83 (equal)."


def test_gallery_shows_what_ccml_repairs(tmp_path):
    n_test = len(protocol.load("digits").test)
    euclidean, ccml = np.zeros(n_test), np.zeros(n_test)
    euclidean[:7] = 1
    ccml[:3] = 1
    results = {
        cell_of("digits", "Euclidean"): outcome(euclidean),
        cell_of("digits", "CCML"): outcome(ccml),
        cell_of("digits", "ConvCCML-1"): outcome(ccml),
    }
    assert gallery.can_draw(results, "digits")
    caption = gallery.figure(results, "digits", tmp_path / "gallery.svg")
    assert "4 of 4 queries that Euclidean distances get wrong and CCML right" in caption
    assert "3 of the 3 that ConvCCML-1 gets wrong" in caption
    assert b"<svg" in (tmp_path / "gallery.svg").read_bytes()
    assert not gallery.can_draw({cell_of("digits", "CCML"): outcome(ccml)}, "digits")
    flawless = {cell: outcome(np.zeros_like(ccml)) for cell in results}
    assert not gallery.can_draw(flawless, "digits")
