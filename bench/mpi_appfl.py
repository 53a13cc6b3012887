"""FedAvg by APPFL's MPI communicators: rank 0 serves, every other rank is a client. mpi_appfl.py FOLDER ROUNDS

The model is 784-200-10; a client has 600 random samples and takes 12 steps of 50. Rank 0 prints seconds per round, the median of all
but the first. This file is also where APPFL finds the model, the loss and the data.
"""
import sys
import time

import torch
from torch import nn

torch.set_num_threads(1)


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(784, 200), nn.ReLU(), nn.Linear(200, 10))

    def forward(self, x):
        return self.layers(x)


class Loss(nn.CrossEntropyLoss):
    pass


def data(client):
    made = torch.Generator().manual_seed(client)
    x = torch.randn(600, 784, generator=made)
    y = torch.randint(0, 10, (600,), generator=made)
    return torch.utils.data.TensorDataset(x, y), None


def accuracy(target, output):
    return 0.0


def settings(folder, rounds, clients):
    here = __file__
    return {
        "client_configs": {
            "train_configs": {
                "trainer": "VanillaTrainer", "mode": "step", "num_local_steps": 12, "optim": "SGD", "optim_args": {"lr": 0.01},
                "loss_fn_path": here, "loss_fn_name": "Loss", "metric_path": here, "metric_name": "accuracy", "do_validation": False,
                "train_batch_size": 50, "train_data_shuffle": True, "device": "cpu",
            },
            "model_configs": {"model_path": here, "model_name": "Network", "model_kwargs": {}},
        },
        "server_configs": {
            "num_clients": clients, "scheduler": "SyncScheduler", "scheduler_kwargs": {"same_init_model": True},
            "aggregator": "FedAvgAggregator", "aggregator_kwargs": {"client_weights_mode": "sample_size"},
            "num_global_epochs": rounds, "logging_output_dirname": folder, "logging_output_filename": "server", "device": "cpu",
        },
    }


def serve(comm, folder, rounds):
    from appfl.agent import ServerAgent
    from appfl.comm.mpi import MPIServerCommunicator
    from omegaconf import OmegaConf

    agent = ServerAgent(OmegaConf.create(settings(folder, rounds, comm.Get_size() - 1)))
    MPIServerCommunicator(comm, agent, logger=agent.logger).serve()


def join(comm, folder):
    from appfl.agent import ClientAgent
    from appfl.comm.mpi import MPIClientCommunicator
    from omegaconf import OmegaConf

    number = comm.Get_rank() - 1
    agent = ClientAgent(OmegaConf.create({
        "client_id": f"client{number}",
        "train_configs": {"logging_output_dirname": folder, "logging_output_filename": "client"},
        "data_configs": {"dataset_path": __file__, "dataset_name": "data", "dataset_kwargs": {"client": number}},
    }))
    server = MPIClientCommunicator(comm, server_rank=0, client_id=agent.get_id())
    agent.load_config(server.get_configuration())
    agent.load_parameters(server.get_global_model(init_model=True))
    server.invoke_custom_action(action="set_sample_size", sample_size=agent.get_sample_size())
    times, status = [time.time()], None
    while status != "DONE":
        agent.train()
        local = agent.get_parameters()
        local, more = local if isinstance(local, tuple) else (local, {})
        model, told = server.update_global_model(local, **more)
        agent.load_parameters(model)
        status = told["status"]
        times.append(time.time())
    server.invoke_custom_action(action="close_connection")
    if number == 0:
        rounds = sorted(b - a for a, b in zip(times[1:], times[2:]))
        print(f"ROUND {rounds[len(rounds) // 2]:.6f} {len(times) - 1}", flush=True)


if __name__ == "__main__":
    from mpi4py import MPI

    if MPI.COMM_WORLD.Get_rank() == 0:
        serve(MPI.COMM_WORLD, sys.argv[1], int(sys.argv[2]))
    else:
        join(MPI.COMM_WORLD, sys.argv[1])
