"""Options of `streamrank evaluate`."""

from typing import Any

from .common import above_zero, add_config, add_json, add_store, command, filled, share, whole

CLICK_MODELS = ("perfect", "navigational", "informational", "pbm")


def add(commands: Any) -> None:
    """The options of `evaluate`."""
    parser = command(
        commands,
        "evaluate",
        "evaluate:evaluate",
        "train a learner on judged lists and measure how well it ranks others",
        "evaluate --train S1.svmlight.gz S2.svmlight.gz --valid S3.svmlight.gz --test S4.svmlight.gz "
        "--learner rankrls --set method=hybrid",
        "evaluate --train S1.svmlight.gz --test S4.svmlight.gz --learner egdm --passes 1 --json",
        "evaluate --train S1.svmlight.gz --valid S3.svmlight.gz --test S4.svmlight.gz --learner rbf "
        "--set centres=10 --set solver=closed",
        "evaluate --train S1.svmlight.gz --valid S3.svmlight.gz --test S4.svmlight.gz --learner rankrls "
        "--plot solvers.html",
        "evaluate --interactions ratings.parquet --learner robirank-mf --passes 5 --split ratio:0.8 "
        "--seed 3 --json",
        "evaluate --online --train S1.svmlight.gz --test S4.svmlight.gz --learner pdgd,egdm "
        "--click-model navigational --rounds 10000 --seed 3 --plot online.html",
        "evaluate --off-policy later.jsonl --store sqlite:///s.db --by price:asc",
    )
    parser.add_argument("--train", nargs="+", metavar="FILE", help="LETOR/svmlight or Parquet")
    parser.add_argument("--test", nargs="+", metavar="FILE", help="measured on these")
    parser.add_argument(
        "--valid", nargs="+", metavar="FILE", help="what rankrls, regression, rbf choose lambda on"
    )
    parser.add_argument(
        "--learner",
        help="rankrls (batch), or one pass of egdm, regression, rbf, ranknet, listnet, listmle, lambdarank, "
        "approxndcg, neuralndcg, song, ksong, pdgd, robirank; with --online several, apart by commas",
    )
    parser.add_argument(
        "--interactions",
        nargs="+",
        metavar="FILE",
        help="instead of lists: who liked what (MovieLens-style text, Parquet), split by --split; learners "
        "robirank-mf, bpr, popularity",
    )
    parser.add_argument(
        "--split",
        default="leave-last",
        metavar="HOW",
        help="of --interactions: leave-last (of each user), ratio:0.8 (random), time:0.8 (the earlier part "
        "trains), or prequential (in time order, each ranked against all items before it is learnt)",
    )
    parser.add_argument(
        "--set", action="append", metavar="NAME=VALUE", help="a parameter of the learner; may be repeated"
    )
    parser.add_argument(
        "--passes", type=whole(1), default=1, metavar="N", help="over the lists, streaming (default: 1)"
    )
    parser.add_argument(
        "--seed", type=whole(0), default=0, help="of the order of later passes, of users (default: 0)"
    )
    add_online(parser)
    add_off_policy(parser)
    parser.add_argument(
        "--plot",
        type=filled,
        metavar="FILE.html",
        help="draw it. rankrls: error against iterations by lambda, eigenvalue estimates, GDM, eGDM and CG; "
        "others: quality on --valid (else --test) against lists learnt",
    )
    add_json(parser, note="; with --plot `figures` in it holds what was fitted or drawn")


def add_online(parser: Any) -> None:
    """The options of the experiment with simulated users."""
    parser.add_argument(
        "--online",
        action="store_true",
        help="the learner ranks training queries, simulated users click, it learns from the clicks alone; "
        "test.ndcg@10 is its quality in the end, online.ndcg@10 that of what was shown meanwhile",
    )
    parser.add_argument(
        "--click-model",
        choices=CLICK_MODELS,
        help="how users click, with --online (default: pbm, rank k is looked at with chance 1/k)",
    )
    parser.add_argument(
        "--rounds",
        type=whole(1),
        metavar="N",
        help="rankings shown, with --online (default: 10000)",
    )
    parser.add_argument(
        "--shuffled",
        type=share(1.0),
        metavar="SHARE",
        help="of the rankings is shown in random order, with --online, once the position bias is known; the "
        "first 2000, or a tenth, measure it (default: 0.1)",
    )


def add_off_policy(parser: Any) -> None:
    """The options of the comparison on a log."""
    parser.add_argument(
        "--off-policy",
        nargs="+",
        metavar="LOG",
        help="estimate from the clicks of a log what candidates would have got, without showing them: the "
        "models of --store as they are, else those of --config (or one --learner) learning from the log on "
        "the way, each ranking ordered before its clicks are learnt; beside them the order shown and a "
        "random one. How likely a rank is looked at must be known: by items[].propensity, judge.theta, or "
        "rankings marked shuffled",
    )
    parser.add_argument(
        "--by",
        action="append",
        type=filled,
        metavar="FIELD[:asc]",
        help="a candidate that orders by one field, with --off-policy; may be repeated",
    )
    parser.add_argument(
        "--clip",
        type=above_zero,
        default=10.0,
        metavar="M",
        help="largest weight of a click in the clipped estimate, with --off-policy (default: 10)",
    )
    add_store(parser)
    add_config(parser)
