/* What the reference says beside keys and things: what exactly is done to features, and the files that are read and
 * written. */
#include "describe/reference.h"

typedef struct {
    const char *label, *text; /* NULL ends the list */
} fact;

typedef struct {
    const char *title, *text;
    const char *example; /* NULL: none */
    const fact *facts;
} note;

static const fact of_normalize[] = {
    {"auto", "bytes (IDX, CIFAR-10, NumPy's uint8, drawn digits) are divided by 255; everything else stays as it is"},
    {"none", "as the file has it: bytes are 0 to 255"},
    {"unit", "bytes are divided by 255; otherwise each feature is divided by its largest magnitude over all training "
             "samples, so that it lies in [-1, 1]; zeros stay zeros, and sparse data sparse"},
    {"standard", "(value - mean) / deviation over all training samples (the deviation with 1/n): for images one mean "
                 "and deviation per channel, otherwise one per feature; refused for sparse data, whose zeros it would "
                 "fill"},
    {"columns", "each feature is divided by its Euclidean norm over all training samples; zeros stay zeros"},
    {"given", "(value - `mean`) / `std`, where bytes are divided by 255 first; one value for all, or one per channel "
              "of images and per feature otherwise; refused for sparse data"},
    {"image", "(value - mean) / max(deviation, 1/sqrt(n)) with the mean and deviation of each image alone, over all n "
              "values of its channels that a model sees: after cropping (`data.crop`) and augmentation; refused for "
              "samples that are not images"},
    {"affine", "value * `scale` + `shift`, of values as they are stored: what another way came to, written down, as "
               "`fedloom data --export` does for a server that has no samples; one value for all, one per channel of "
               "images or one per feature; sparse data take no shift"},
    {NULL, NULL},
};

static const fact of_labels[] = {
    {"classes 0",
     "the different labels of the training samples in ascending order, of the numbers or else of the words, "
     "are classes 0, 1, ...; a note in the log says which label is which class, unless they are 0, 1, ... "
     "already"},
    {"classes N",
     "labels are the whole numbers 0 to N-1 and stay as they are, even those that do not occur in training"},
    {"test samples", "with classes 0 a label that does not occur in training is an error"},
    {"many labels", "with classes 0 more than 1000 different labels with less than two samples each, on average, are "
                    "refused: they look like values to predict"},
    {"idx", "the labels of the whole training file count, also with `limit`"},
    {"cifar10", "labels are 0 to 9, as the set defines them"},
    {NULL, NULL},
};

static const fact of_storage[] = {
    {"csv, leaf, libsvm", "in the `precision` of the run; with f32 a value beyond 3.4e38 is an error, not infinity"},
    {"npy, npz", "uint8 stays bytes; bool, int8, int16, uint16, float16 and float32 are kept as f32, which holds them "
                 "exactly; int32, uint32, int64, uint64 and float64 as f64, where integers beyond 2^53 are rounded"},
    {"idx", "bytes, f32 or f64, as in the file"},
    {"cifar10, digits, image_folder", "bytes"},
    {"too large",
     "whatever is kept as f64 is converted to f32 for a run in f32, after `normalize`; what does not fit then is an "
     "error with its sample and feature"},
    {NULL, NULL},
};

static const fact of_images[] = {
    {"PNG", "grey, colour and palettes of 1 to 16 bits, interlaced or not; 16 bits are rounded to 8, grey of fewer is "
            "spread over 0 to 255, palettes count as colour, transparency is left out"},
    {"JPEG", "grey and colour, progressive or not; CMYK is refused, and so is an image of which a part is missing"},
    {"order",
     "classes by name as other labels, then images by the bytes of their names; what is hidden, or has another "
     "ending than .png, .jpg or .jpeg, is left out, which is noted"},
    {"channels: 1", "0.299 red + 0.587 green + 0.114 blue, rounded"},
    {"resize",
     "after `channels`; every pixel is a mean weighted by a triangle as wide as the step between pixels, of "
     "the larger image's, as in Pillow's resize(..., BILINEAR) and torchvision's Resize: with the same bits up to "
     "Pillow 12, and within 1 of later ones"},
    {"not looked at", "gamma, colour profiles, and the direction of a camera in EXIF: as in torchvision's ImageFolder"},
    {"limits", "134217728 pixels and 256 MiB per file"},
    {NULL, NULL},
};

static const fact of_partition[] = {
    {"clients", "a list per client of sample numbers, from 0, in the order of the training data"},
    {"names", "instead of the key clients, an object with one list per client under its name; clients are numbered in "
              "the order of the file"},
    {"a sample", "is in one list at most; a sample in no list takes no part, which is noted"},
    {"a client", "has at least one sample"},
    {"partition.clients", "takes the first N clients; 0 takes all"},
    {NULL, NULL},
};

static const fact of_schedule[] = {
    {"round", "counted from 1; rounds do not decrease from line to line"},
    {"client", "counted from 0, or * for everyone"},
    {"p", "above 0 and up to 1; counts from that round on, until a later line for the client or for everyone"},
    {"first round", "every client has a p in round 1"},
    {"methods", "get the p of the round in which they use it, as in [VRA]: `d: auto` of fedvra is 1 over it"},
    {NULL, NULL},
};

static const fact of_tensors[] = {
    {"least_squares, logistic", "weight (features)"},
    {"softmax", "weight (classes x features), bias (classes)"},
    {"mlp", "layer1.weight (hidden x features), layer1.bias (hidden), layer2.weight, ..., the last layer with one row "
            "per class; without hidden layers weight and bias"},
    {"cnn", "conv1.weight (filters x channels x kernel x kernel), conv1.bias (filters), conv2.weight, ..., fc1.weight "
            "(outputs x inputs), fc1.bias, ..., the last fc with one row per class; the inputs of fc1 run over "
            "channels, rows and columns of the image, columns fastest"},
    {"factorization", "weight (features x clusters): the centres are its columns"},
    {"bilevel", "regularization puts log_l2 (features) in front of the model's own tensors; hyper_representation has "
                "those of its network, always numbered as layer1, ..."},
    {"precision", "tensors are F32 or F64, as the run computed; matrices are row-major"},
    {"features", "weights are for features after `normalize`"},
    {NULL, NULL},
};

static const fact of_balanced[] = {
    {"why",
     "a local turn moves a client by about lr Q times the gradient of its posed problem, so two numbers say what "
     "gamma, a and d do: s = p_i (a_i + d_i), the server's step along the mean displacement (1 in FedAvg and "
     "FedDyn), and theta = a_i gamma lr Q, the share of the way that a client's dual goes to its gradient in one "
     "turn. The rule fixes both: s between 1 and 2, theta = 1/2"},
    {"T, p",
     "means over all clients, weighed by w_i, of lr_i Q_i in the first round and of the probability p_i to take "
     "part; they are known before the first round"},
    {"s", "2/T, but at least 1 and at most 2: clients that hardly move in a turn are followed further"},
    {"gamma", "p/(s T) for all clients, so that theta = 1/2 at a client with average steps"},
    {"a", "s/(2 p_i), but at most 1/(gamma lr Qt_i), where theta would be 1; Qt_i is the sum of (1 - gamma lr)^t over "
          "the Q_i steps"},
    {"d", "s/(p_i W) - a_i, where W is the sum of w_i/p_i over the cohort, 1 in the mean: cohorts that weigh more or "
          "less than their share do not add noise. Beside an a that is given or auto: 1/p_i"},
    {NULL, NULL},
};

static const fact of_eta[] = {
    {"why",
     "with exact proxes and quadratics of curvature h a round takes alpha eta h/(1 + eta h) off an error that clients "
     "share, and alpha/(1 + eta h) off what they disagree about. eta should be large for flat directions and not too "
     "large for steep ones; 1/sqrt(mu L) is best, but nobody knows mu"},
    {"solver exact, accurate",
     "10/L: disagreement shrinks by at least alpha/11 per round, and the rest at a tenth of the best rate or better "
     "while L/mu is below 10000. L is the largest smoothness of a client, measured as `fedloom check` does. 1/L for "
     "models that are not convex, below which a local problem has one minimiser"},
    {"solver sgd",
     "lr Q/(1 - momentum), with the mean over clients of their local steps Q in the first round: SGD cannot follow a "
     "proximal term "
     "beyond that, so that a larger eta only slows agreement down, and a smaller one wastes steps. Below lr/2 the "
     "steps "
     "would not even be stable"},
    {"theory", "allows less, eta < (2 - alpha)/(2 L): `fedloom check` advises a setting that satisfies it"},
    {NULL, NULL},
};

static const note notes[] = {
    {"normalize",
     "What each choice of `data.normalize` does to a feature. Means, norms and magnitudes are of the training samples "
     "of "
     "all clients together, and the test samples are treated with the same numbers. A feature whose divisor would be 0 "
     "is not divided. Samples stay in memory as they were read; the arithmetic happens when a batch is made.",
     NULL, of_normalize},
    {"storage",
     "How features are kept in memory; `fedloom data` shows it. Nothing is rounded that the run could use: with "
     "`precision: f64` what the files say is kept to the last bit.",
     NULL, of_storage},
    {"labels",
     "How labels of classification data become classes, for csv, idx, image_folder, leaf, libsvm, npy and npz alike "
     "(`data.classes`).",
     NULL, of_labels},
    {"images", "What `data: {kind: image_folder}` makes of a file: bytes, one plane per channel.", NULL, of_images},
    {"partition file", "What `partition: {kind: file, path: FILE}` reads: a JSON object.",
     "{\"clients\": [[0, 5, 7], [1, 2]]}\n{\"ann\": [0, 5, 7], \"bob\": [1, 2]}\n", of_partition},
    {"schedule of probabilities",
     "What `participation: {kind: schedule, path: FILE}` reads: lines of text, with or without the names of the "
     "columns "
     "in the first.",
     "round,client,p\n1,*,0.1\n50,3,0.5\n100,*,0.2\n", of_schedule},
    {"model.safetensors",
     "The model in a result folder, as any reader of safetensors opens it. The metadata name the model and the "
     "version; "
     "the tensors are, by model:",
     NULL, of_tensors},
    {"balanced step sizes",
     "What `balanced` means for `gamma`, `a` and `d` of fedvra and fedvra-u, their default. Each may also be given "
     "alone: the others still follow their rule. `auto` is another rule, Remark 1 of the paper: d_i = 1/p_i, and the "
     "largest a_i with (a_i + d_i) lr gamma Qt_i at most 1.",
     NULL, of_balanced},
    {"eta of Douglas-Rachford methods",
     "What `eta: auto` means for feddr, asyncfeddr and fedsplit, their default. The number it leads to is logged when "
     "a "
     "run begins and stands in `result.json` as `settled`.",
     NULL, of_eta},
};

void fli_reference_notes(fli_text *t, const fli_reference_style *style)
{
    style->heading(t, 1, "notes");
    style->paragraph(t, "What keys cannot say.");
    for (size_t i = 0; i < sizeof notes / sizeof *notes; i++) {
        style->heading(t, 2, notes[i].title);
        style->paragraph(t, notes[i].text);
        if (notes[i].example) style->example(t, notes[i].example);
        style->facts_begin(t);
        for (const fact *f = notes[i].facts; f->label; f++) style->fact(t, f->label, f->text);
    }
}
