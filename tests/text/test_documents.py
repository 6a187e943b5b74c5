import json

import pytest

from luong.config import DocumentFiles, DocumentsConfig
from luong.errors import UserError
from luong.text.document_dataset import DocumentDataset, DocumentReader, lowered
from luong.text.documents import DocumentCorpus
from luong.text.labels import Labels
from luong.text.pretrained import read_pretrained
from luong.text.tokenizers import load_tokenizers, save_tokenizers
from luong.text.words import WordTokenizer

ROWS = [
    {"text": "Good film. I liked it!", "label": "pos"},
    {"sentences": ["bad", "", "so bad so bad so bad"], "label": ["neg"]},
    {"text": "", "label": "neg"},
    {"text": "fine fine", "label": "pos"},
]


@pytest.fixture
def corpus_of(tmp_path):
    def make(text, name="documents.jsonl"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return DocumentCorpus.open(DocumentFiles(file=path))

    return make


@pytest.fixture
def dataset(corpus_of):
    def make(**limits):
        corpus = corpus_of("\n".join(map(json.dumps, ROWS)) + "\n\n")
        files = DocumentFiles(file="unused")
        config = DocumentsConfig(train=files, valid=files, **limits)
        tokenizer = WordTokenizer.train(["good film bad so fine it"], size=100)
        labels = Labels(["neg", "pos"])
        reader = DocumentReader(tokenizer, config)
        return DocumentDataset(corpus, reader, labels, multi_label=False)

    return make


def test_json_rows_tabs_and_folders_say_the_same(corpus_of, tmp_path):
    rows = [("b", "One. Two."), ("a", "Three\twith a tab.")]
    as_json = corpus_of("\n".join(json.dumps({"text": t, "label": n}) for n, t in rows))
    as_tabs = corpus_of("\ufeff" + "\r\n".join(f"{n}\t{t}" for n, t in rows), "rows.tsv")
    assert list(as_json) == list(as_tabs)
    assert [document.sentences for document in as_tabs] == [
        ["One.", "Two."],
        ["Three\twith a tab."],
    ]
    for name, text in rows:
        (tmp_path / "all" / name / "deep").mkdir(parents=True)
        (tmp_path / "all" / name / "deep" / "1.txt").write_text(text)
        (tmp_path / "all" / name / ".hidden").write_text("not read")
    folder = DocumentCorpus.open(DocumentFiles(folder=tmp_path / "all"))
    assert list(folder) == list(as_json)[::-1]
    before = folder.fingerprint
    (tmp_path / "all" / "a" / "deep" / "1.txt").write_text("Thre3")
    assert folder.fingerprint != before


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ('{"text": "a", "label": "b"}\n{"text": "a"', "x.jsonl", "line 2 is not JSON"),
        ('["a"]', "x.jsonl", "line 1 is not an object"),
        ('{"label": "b"}', "x.jsonl", 'must have either "text" or "sentences"'),
        ('{"text": "a", "sentences": [], "label": "b"}', "x.jsonl", 'either "text" or'),
        ('{"text": "a"}', "x.jsonl", '"label" is None; expected a text'),
        ('{"text": "a", "label": 3}', "x.jsonl", '"label" is 3; expected a text'),
        ('{"text": "a", "label": " "}', "x.jsonl", "\"label\" is ' '"),
        ('{"text": "a", "label": "a\\tb"}', "x.jsonl", "holds a tab"),
        ('{"text": 1, "label": "b"}', "x.jsonl", '"text" is a text'),
        ("a\tb\nc", "x.tsv", "line 2: expected a label, a tab and the text"),
        ("\n \n", "x.jsonl", "holds no document"),
    ],
)
def test_what_is_wrong_with_a_row(corpus_of, text, name, message):
    with pytest.raises(UserError) as caught:
        list(corpus_of(text, name))
    assert message in str(caught.value)


def test_folders_that_cannot_be_read(tmp_path):
    (tmp_path / "a").mkdir()
    with pytest.raises(UserError, match="holds no document"):
        DocumentCorpus.open(DocumentFiles(folder=tmp_path))
    with pytest.raises(UserError, match="is not a folder"):
        DocumentCorpus.open(DocumentFiles(folder=tmp_path / "b"))
    (tmp_path / "a" / "one").write_bytes(b"caf\xe9")
    with pytest.raises(UserError, match=r"one is not UTF-8 \(byte 3\)"):
        list(DocumentCorpus.open(DocumentFiles(folder=tmp_path)))


def test_nothing_is_dropped_and_what_is_cut_is_counted(dataset):
    whole = dataset()
    summary = whole.summary
    assert (len(whole), summary.documents, summary.blank_lines, summary.empty) == (4, 4, 1, 1)
    assert (summary.cut_documents, summary.cut_sentences) == (0, 0)
    assert summary.label_counts == [2, 2]
    assert whole.sentence_counts.tolist() == [2, 3, 0, 1]
    assert whole.targets.tolist() == [[0, 1], [1, 0], [1, 0], [0, 1]]
    cut = dataset(max_sentences=2, max_words=2)
    # "Good film." and "I liked it!" have three and four tokens; the third sentence is not read.
    assert (cut.summary.cut_documents, cut.summary.cut_sentences) == (1, 2)
    assert cut.word_counts.tolist() == [2, 2, 1, 0, 2]


def test_a_batch_is_one_matrix_of_sentences(dataset):
    data = dataset()
    batch = data.batch([1, 2, 0])
    bad = int(data.batch([1]).words[0, 0])
    assert batch.words.shape == (5, 6)
    assert batch.word_counts.tolist() == [1, 0, 6, 3, 4]
    assert batch.sentence_counts.tolist() == [3, 0, 2]
    assert batch.words[0].tolist() == [bad, 0, 0, 0, 0, 0]
    assert not batch.words[1].any()
    assert (batch.source_tokens, batch.target_tokens) == (14, 3)
    halves = batch.halves()
    assert [half.sentence_counts.tolist() for half in halves] == [[3], [0, 2]]
    assert [len(half.words) for half in halves] == [3, 2]
    assert halves[0].halves() == [halves[0]]


def test_the_plan_takes_each_document_once_and_keeps_to_the_budget(dataset):
    data = dataset()
    plan = data.plan(batch_tokens=9, seed=1, epoch=2)
    assert sorted(int(one) for batch in plan for one in batch) == [0, 1, 2, 3]
    for positions in plan:
        assert len(positions) == 1 or data.batch(positions).words.numel() <= 9
    again = data.plan(batch_tokens=9, seed=1, epoch=2)
    assert [one.tolist() for one in plan] == [one.tolist() for one in again]
    plans = {str(data.plan(batch_tokens=9, seed=1, epoch=epoch)) for epoch in range(8)}
    assert len(plans) > 1


def test_labels_that_do_not_fit(corpus_of):
    files = DocumentFiles(file="unused")
    reader = DocumentReader(
        WordTokenizer.train(["a"], size=9), DocumentsConfig(train=files, valid=files)
    )
    two = corpus_of('{"text": "a", "label": ["x", "y"]}')
    with pytest.raises(UserError, match="document 1 has 2 labels; expected one"):
        DocumentDataset(two, reader, Labels(["x", "y"]), multi_label=False)
    data = DocumentDataset(two, reader, Labels(["x", "y", "z"]), multi_label=True)
    assert data.targets.tolist() == [[1, 1, 0]]
    with pytest.raises(UserError, match="label 'y' is not among those of the training data: x"):
        DocumentDataset(two, reader, Labels(["x"]), multi_label=True)


def test_small_letters_keep_their_places():
    assert lowered("ÄÖ Straße") == "äö straße"
    assert lowered("İSTANBUL") == "İstanbul"


def test_labels_are_saved_as_a_tokenizer_is(tmp_path):
    words, labels = WordTokenizer.train(["a b"], size=9), Labels(["spam, or not", "ham"])
    save_tokenizers(tmp_path, words, labels)
    source, target = load_tokenizers(tmp_path)
    assert (source.size, target.size, target.kind) == (6, 2, "label")
    assert target.encode("ham") == ([1], [(0, 3)])
    assert target.decode_spans([1, 1]) == ("ham,ham", [(0, 3), (4, 7)])
    with pytest.raises(ValueError, match="twice"):
        Labels(["a", "a"])


@pytest.mark.parametrize("head", ["", "3 2\n"], ids=["GloVe", "word2vec"])
def test_pretrained_vectors(tmp_path, head):
    tokenizer = WordTokenizer.train(["Paris paris, film rare"], size=20)
    path = tmp_path / "vectors.txt"
    path.write_text(f"{head}paris 1 2\nfilm 0.5 -1e-2 \nother x y\n, 7 8\n")
    vectors = read_pretrained(path, tokenizer, 2)
    found = {tokenizer.tokens([id])[0]: vector.tolist() for id, vector in vectors.items()}
    assert found == {
        "Paris": [1, 2],
        "paris": [1, 2],
        "film": [0.5, pytest.approx(-0.01)],
        ",": [7, 8],
    }
    with pytest.raises(UserError, match=r"has 2 numbers, but model\.embedding_size is 3"):
        read_pretrained(path, tokenizer, 3)
    path.write_text("film a b\n")
    with pytest.raises(UserError, match="line 1: expected a word and numbers"):
        read_pretrained(path, tokenizer, 2)
