"""Federated averaging of 159,010 parameters, in Flower's message API: a client adds a little to what it got."""
import time

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

SHAPES = [(784, 200), (200,), (200, 10), (10,)]
client = ClientApp()
server = ServerApp()


@client.train()
def train(message: Message, context: Context) -> Message:
    layers = message.content["arrays"].to_numpy_ndarrays()
    layers = [x + np.float32(0.01) for x in layers]
    content = RecordDict({"arrays": ArrayRecord(layers), "metrics": MetricRecord({"num-examples": 16})})
    return Message(content=content, reply_to=message)


@server.main()
def main(grid: Grid, context: Context) -> None:
    nodes, rounds = int(context.run_config["nodes"]), int(context.run_config["rounds"])

    class Timed(FedAvg):
        def aggregate_train(self, server_round, replies):
            replies = list(replies)
            result = super().aggregate_train(server_round, replies)
            print(f"ROUND {server_round} {time.time():.3f} {len(replies)}", flush=True)
            return result

    strategy = Timed(fraction_train=1.0, fraction_evaluate=0.0, min_train_nodes=nodes, min_available_nodes=nodes)
    start = [np.zeros(s, np.float32) for s in SHAPES]
    while len(list(grid.get_node_ids())) < nodes:
        time.sleep(0.5)
    print(f"ROUND 0 {time.time():.3f} 0", flush=True)
    strategy.start(grid=grid, initial_arrays=ArrayRecord(start), num_rounds=rounds, train_config=ConfigRecord({}))
